# cmake -DSOURCE=... -DTEXT=file -DREPLACEMENT=file -DOUTPUT=... -P mutate.cmake
# Copies SOURCE to OUTPUT with the one occurrence of the text replaced.
file(READ "${SOURCE}" content)
file(READ "${TEXT}" text)
file(READ "${REPLACEMENT}" replacement)
string(FIND "${content}" "${text}" first)
string(FIND "${content}" "${text}" last REVERSE)
if(first EQUAL -1)
  message(FATAL_ERROR "${SOURCE} does not contain the text that this mutant weakens:\n${text}\n"
                      "Bring the mutant up to date.")
elseif(NOT first EQUAL last)
  message(FATAL_ERROR "${SOURCE} contains the text that this mutant weakens more than once:\n${text}")
endif()
string(REPLACE "${text}" "${replacement}" content "${content}")
file(WRITE "${OUTPUT}" "${content}")
