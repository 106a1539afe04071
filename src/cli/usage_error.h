// What a wrong command line is answered with: one line, with the nearest name if one is near.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace paceline::cli {

// The candidate that differs from `name` by the fewest edits (ties: the first); empty if none is
// nearer than a third of its length.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

// Prints help or version to standard output and returns 0, or one line to standard error and
// returns kExitUsage.
int report_parse_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace paceline::cli
