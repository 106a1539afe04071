#include "cli/usage_error.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <numeric>

#include "base/str.h"
#include "cli/exit_code.h"

namespace paceline::cli {
namespace {

// Levenshtein's distance, one row at a time.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> names_known_to(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) names.push_back(verb->get_name());
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// The verb that the user has named, else `pace` itself.
const CLI::App& innermost(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.front());
}

// What the parser did not know; empty if the error is another one.
std::string unknown_word(const CLI::App& verb) {
  const std::vector<std::string> rest = verb.remaining();
  return rest.empty() ? std::string() : rest.front().substr(0, rest.front().find('='));
}

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates) {
  std::string nearest;
  size_t best = std::max<size_t>(name.size() / 3, 1) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

int report_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
    return app.exit(error, std::cout, std::cerr);

  const CLI::App& verb = innermost(app);
  std::string message = error.what();
  // First what is not known: what the parser misses is often what was misspelt.
  const std::string word = unknown_word(verb);
  if (!word.empty()) {
    const std::string nearest = nearest_name(word, names_known_to(verb));
    message = str("unknown: ", word,
                  nearest.empty() ? "; --help lists what there is" : "; did you mean " + nearest);
    if (!nearest.empty()) message += "?";
  }
  std::fprintf(stderr, "pace: %s\n", message.c_str());
  return kExitUsage;
}

}  // namespace paceline::cli
