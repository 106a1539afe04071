// pace: one binary, its roles chosen by verb.
#include <CLI/CLI.hpp>
#include <string>

#include "cli/exit_code.h"
#include "cli/usage_error.h"
#include "cli/verbs.h"

int main(int argument_count, char** arguments) {
  CLI::App app("Keeps multi-node training at the pace that its hardware can give.", "pace");
  app.require_subcommand(1);
  app.set_version_flag("--version", "pace 0.1.0");

  paceline::cli::Chosen chosen;
  paceline::cli::add_run(app, chosen);
  paceline::cli::add_controller(app, chosen);
  paceline::cli::add_agent(app, chosen);
  paceline::cli::add_recovery(app, chosen);
  paceline::cli::add_sim(app, chosen);

  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::ParseError& error) {
    return paceline::cli::report_parse_error(app, error);
  }
  return chosen ? chosen() : paceline::cli::kExitUsage;
}
