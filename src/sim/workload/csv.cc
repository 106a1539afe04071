#include "sim/workload/csv.h"

#include <algorithm>

namespace paceline::sim {
namespace {

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == ',') {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

constexpr size_t kMaxDigits =
    12;  // before the point: in thousandths still far from the end of the range

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

CsvReader::CsvReader(std::istream& input) : input_(input) {
  std::string header;
  std::getline(input_, header);
  const std::vector<std::string> names = split(header);
  for (size_t i = 0; i < names.size(); ++i) columns_.emplace(names[i], i);
}

bool CsvReader::next() {
  std::string line;
  while (std::getline(input_, line)) {
    ++line_;
    if (line.empty() || line == "\r") continue;
    fields_ = split(line);
    return true;
  }
  return false;
}

std::string CsvReader::field(const std::string& column) const {
  const auto found = columns_.find(column);
  return found == columns_.end() || found->second >= fields_.size() ? "" : fields_[found->second];
}

std::optional<int64_t> parse_milli(const std::string& text) {
  size_t at = 0;
  const bool is_negative = at < text.size() && text[at] == '-';
  if (is_negative) ++at;
  int64_t value = 0;
  size_t digits = 0;
  for (; at < text.size() && is_digit(text[at]) && digits <= kMaxDigits; ++at, ++digits)
    value = value * 10 + (text[at] - '0');
  if (digits == 0 || digits > kMaxDigits) return std::nullopt;
  int64_t milli = 0;
  if (at < text.size() && text[at] == '.') {
    ++at;
    for (int64_t weight = 100; at < text.size() && is_digit(text[at]); ++at, weight /= 10)
      milli += (text[at] - '0') * weight;
  }
  if (at != text.size()) return std::nullopt;
  value = value * 1000 + milli;
  return is_negative ? -value : value;
}

}  // namespace paceline::sim
