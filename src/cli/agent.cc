// pace agent: looks after the ranks of one host. Started by `pace run`, or by hand on a cluster.
#include "live/agent/agent_daemon.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/verbs.h"

namespace paceline::cli {

void add_agent(CLI::App& app, Chosen& chosen) {
  CLI::App* verb = app.add_subcommand("agent", "Looks after the ranks of one host");
  const auto options = std::make_shared<agent::AgentOptions>();  // lives as long as the parser
  verb->add_option("--controller", options->controller, "address of the controller")->required();
  verb->add_option("--host-name", options->host_name, "name of this host, unique in the cluster")
      ->required();
  verb->add_option("--address", options->address,
                   "IPv4 address by which ranks on other hosts reach this one")
      ->required();
  verb->add_option("--parent-fd", options->parent_descriptor,
                   "descriptor whose end of file ends the agent and its ranks");
  verb->add_option("--log-dir", options->log_directory,
                   "folder for <host>/rank<slot>.<incarnation>.log");
  verb->callback([options, &chosen] { chosen = [options] { return agent::run_agent(*options); }; });
}

}  // namespace paceline::cli
