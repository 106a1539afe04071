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

// True if the file is a binary that was linked without libpaceline and does not name it either. A
// script, or anything that cannot be read, may use it: false.
bool is_surely_unaware(const std::string& path);

}  // namespace paceline::cli
