// str(a, b, ...): the arguments as text, one after the other. For messages, never on a hot path.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

namespace paceline {

inline std::string str() { return {}; }

template <class... Parts>
requires(sizeof...(Parts) > 0) std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

// "1 rank", "2 ranks", "3 micro-batches".
inline std::string counted(uint64_t count, std::string_view thing) {
  return str(count, " ", thing, count == 1 ? "" : thing.ends_with('h') ? "es" : "s");
}

}  // namespace paceline
