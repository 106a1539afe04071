#include "cli/find_controller.h"

#include <CLI/CLI.hpp>
#include <vector>

#include "base/str.h"
#include "cli/run_directory.h"

namespace paceline::cli {

void add_controller_choice(CLI::App& verb, ControllerChoice& choice) {
  CLI::Option* const address = verb.add_option(
      "--controller", choice.address, "address of the controller; its token is in PACELINE_TOKEN");
  verb.add_option("--run", choice.run_directory,
                  "folder of a run on this machine, paceline-run-... in TMPDIR (default: the only "
                  "one)")
      ->excludes(address);
}

Result<rpc::RpcAddress> find_controller(const ControllerChoice& choice) {
  if (!choice.address.empty()) return rpc::RpcAddress::with_token_from_environment(choice.address);
  if (!choice.run_directory.empty()) return RunDirectory::controller_in(choice.run_directory);
  const std::vector<std::string> runs = RunDirectory::of_the_living();
  if (runs.empty())
    return Failure{ErrorCode::NotFound,
                   "there is no run of yours on this machine; name one with --controller ADDRESS"};
  if (runs.size() == 1) return RunDirectory::controller_in(runs.front());
  std::string names;
  for (const std::string& run : runs) names += " " + run;
  return Failure{ErrorCode::InvalidArgument,
                 str("there are ", runs.size(), " runs; choose one with --run:", names)};
}

}  // namespace paceline::cli
