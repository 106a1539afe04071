// pace run: trains on this machine, and keeps at it whatever breaks.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/exit_code.h"
#include "cli/run_guard.h"
#include "cli/run_options.h"
#include "cli/run_session.h"
#include "cli/verbs.h"

namespace paceline::cli {

void add_run(CLI::App& app, Chosen& chosen) {
  CLI::App* verb = app.add_subcommand("run", "Runs a program as a job of many ranks");
  const auto options = std::make_shared<RunOptions>();  // lives as long as the parser
  add_run_flags(*verb, *options);
  verb->footer(
      "Example:\n  pace run --local 4 --spares 1 --micro-batches 16 --report out -- ./train "
      "--steps 300");
  verb->callback([options, &chosen] {
    chosen = [options] {
      const Status status = complete(*options);
      if (!status) {
        std::fprintf(stderr, "pace: %s\n", status.error().message.c_str());
        return kExitUsage;
      }
      return run_guarded([&options] { return RunSession(*options).run(); });
    };
  });
}

}  // namespace paceline::cli
