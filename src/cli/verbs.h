// The verbs of `pace`. Each family is one file with one function that describes its flags; parsing
// a command line with the verb puts what is to be done into `chosen`, and main() runs that.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace paceline::cli {

// Does the verb's work and returns the exit code of the process (see exit_code.h).
using Chosen = std::function<int()>;

void add_controller(CLI::App& app, Chosen& chosen);
void add_agent(CLI::App& app, Chosen& chosen);
void add_recovery(CLI::App& app, Chosen& chosen);
void add_sim(CLI::App& app, Chosen& chosen);
void add_run(CLI::App& app, Chosen& chosen);

}  // namespace paceline::cli
