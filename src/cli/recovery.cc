// pace recovery: changes, while a job runs, what may be done to ranks that still work.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/exit_code.h"
#include "cli/find_controller.h"
#include "cli/recovery_mode.h"
#include "cli/verbs.h"
#include "live/rpc/controller_client.h"

namespace paceline::cli {
namespace {

constexpr Duration kConnectLimit = Duration::seconds(5);

struct RecoveryFlags {
  ControllerChoice controller;
  std::string mode;
  std::string detector;
};

Status set_recovery(const RecoveryFlags& flags) {
  TRY_ASSIGN(const rpc::RpcAddress address, find_controller(flags.controller));
  TRY_ASSIGN(const std::unique_ptr<rpc::ControllerClient> client,
             rpc::ControllerClient::connect(address, kConnectLimit));
  return client->set_recovery(recovery_mode_of(flags.mode), flags.detector);
}

int run_recovery(const RecoveryFlags& flags) {
  const Status status = set_recovery(flags);
  if (status) return kExitDone;
  std::fprintf(stderr, "pace recovery: %s\n", status.error().message.c_str());
  return status.error().code == ErrorCode::InvalidArgument ? kExitUsage : kExitNoController;
}

}  // namespace

void add_recovery(CLI::App& app, Chosen& chosen) {
  CLI::App* const verb = app.add_subcommand(
      "recovery", "Changes what may be done to ranks of a running job that still work");
  const auto flags = std::make_shared<RecoveryFlags>();  // lives as long as the parser
  verb->add_option("mode", flags->mode, "act, observe or off")
      ->required()
      ->check(CLI::IsMember({"act", "observe", "off"}));
  verb->add_option("--detector", flags->detector, "hang or straggler (default: both)")
      ->check(CLI::IsMember({"hang", "straggler"}));
  add_controller_choice(*verb, flags->controller);
  verb->footer("Example:\n  pace recovery observe --detector straggler");
  verb->callback([flags, &chosen] { chosen = [flags] { return run_recovery(*flags); }; });
}

}  // namespace paceline::cli
