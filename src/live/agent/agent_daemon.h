// The life of the process `pace agent`: an AgentShell, its stream to the controller, its signals
// and its parent.
#pragma once

#include <string>

namespace paceline::agent {

struct AgentOptions {
  std::string controller;  // address that gRPC takes
  std::string host_name;
  std::string address;         // of this host, dotted IPv4, as ranks on other hosts reach it
  int parent_descriptor = -1;  // end of file on it ends the agent and its ranks; -1: none
  std::string log_directory;   // empty: none
};

// Runs until told to end, and returns the exit code of the process. Ends every rank that is left.
int run_agent(const AgentOptions& options);

}  // namespace paceline::agent
