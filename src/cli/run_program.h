// Which file a rank executes.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace paceline::cli {

struct ProgramRequest {
  std::vector<std::string> command;  // as given
  bool is_module = false;            // command[0] is a Python module
  bool is_no_python = false;         // a .py file is executed as it is
};

// The arguments to execute, [0] an absolute path. Looks in PATH as a shell would; a file *.py is
// run by Python, as torchrun does (PYTHON_EXEC, else python3). Errors say what is not there.
Result<std::vector<std::string>> find_program(const ProgramRequest& request);

// True if the program, or a file that one of its arguments names, speaks of libpaceline: a binary
// that links it, a script with the word in it. Words inside an argument count too, as in sh -c.
// What a script imports is not followed. Looks at the first 64 MiB of each file.
bool mentions_paceline(const std::vector<std::string>& arguments);

}  // namespace paceline::cli
