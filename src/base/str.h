// str(a, b, ...): the arguments as text, one after the other. For messages, never on a hot path.
#pragma once

#include <sstream>
#include <string>

namespace paceline {

inline std::string str() { return {}; }

template <class... Parts>
requires(sizeof...(Parts) > 0) std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace paceline
