# Writes OUTPUT, a C++ file that defines kReportPage with the text of INPUT. One literal for each 8 KiB: compilers
# need not take longer ones.
file(READ "${INPUT}" text)
string(LENGTH "${text}" length)
set(literals "")
set(begin 0)
while(begin LESS length)
  string(SUBSTRING "${text}" ${begin} 8000 part)
  string(APPEND literals "R\"page(${part})page\"\n")
  math(EXPR begin "${begin} + 8000")
endwhile()
file(WRITE "${OUTPUT}" "#include \"cli/report/report_page.h\"\n\nnamespace paceline::cli {\nconst std::string_view kReportPage =\n${literals};\n}  // namespace paceline::cli\n")
