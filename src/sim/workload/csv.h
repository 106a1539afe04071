// Rows of comma-separated values with a header. No quotes: none of the traces has any.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace paceline::sim {

class CsvReader {
 public:
  explicit CsvReader(std::istream& input);

  bool has_column(const std::string& name) const { return columns_.contains(name); }
  const std::map<std::string, size_t>& columns() const { return columns_; }
  // The next row that is not empty; false at the end.
  bool next();
  size_t line() const { return line_; }
  bool is_complete() const { return fields_.size() == columns_.size(); }
  // Empty if there is no such column, or the row ends before it.
  std::string field(const std::string& column) const;

 private:
  std::istream& input_;
  std::map<std::string, size_t> columns_;
  std::vector<std::string> fields_;
  size_t line_ = 1;
};

// A decimal number in thousandths, exact; nothing if it is no finite number with at most 12 digits
// before the point. "66.0" is 66000. Further digits are cut off.
std::optional<int64_t> parse_milli(const std::string& text);

}  // namespace paceline::sim
