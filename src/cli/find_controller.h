// Which controller a verb speaks to: one named by the user, or that of a `pace run` on this
// machine.
#pragma once

#include <string>

#include "base/result.h"
#include "live/rpc/endpoint.h"

namespace CLI {
class App;
}

namespace paceline::cli {

struct ControllerChoice {
  std::string address;        // --controller: the token comes from PACELINE_TOKEN
  std::string run_directory;  // --run: as `pace run` has made it
};

// Describes the flags to CLI11. `choice` must outlive the parse.
void add_controller_choice(CLI::App& verb, ControllerChoice& choice);

// Neither is given: that of the only run of this user. The error names what there is.
Result<rpc::RpcAddress> find_controller(const ControllerChoice& choice);

}  // namespace paceline::cli
