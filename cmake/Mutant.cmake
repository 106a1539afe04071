# paceline_mutant(NAME file "exact text" "replacement" library...)
#
# An executable in which a copy of src/core/<file>, with its one occurrence of the text replaced, stands
# for the file; `library`... are what it is linked with, the driver first. The build fails unless the
# text is there exactly once: a mutant that weakens nothing proves nothing.
function(paceline_mutant name file text replacement)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/mutants/${name}")
  get_filename_component(base "${file}" NAME)
  set(source "${CMAKE_SOURCE_DIR}/src/core/${file}")
  file(CONFIGURE OUTPUT "${folder}/text" CONTENT "${text}" @ONLY)
  file(CONFIGURE OUTPUT "${folder}/replacement" CONTENT "${replacement}" @ONLY)
  add_custom_command(
    OUTPUT "${folder}/${base}"
    COMMAND ${CMAKE_COMMAND} "-DSOURCE=${source}" "-DTEXT=${folder}/text"
            "-DREPLACEMENT=${folder}/replacement" "-DOUTPUT=${folder}/${base}"
            -P "${CMAKE_SOURCE_DIR}/cmake/mutate.cmake"
    DEPENDS "${source}" "${folder}/text" "${folder}/replacement" "${CMAKE_SOURCE_DIR}/cmake/mutate.cmake"
    COMMENT "Weakening ${file}: ${name}" VERBATIM)
  # The mutated object comes first, so its original is not taken from the library.
  add_executable(${name} "${folder}/${base}")
  target_link_libraries(${name} PRIVATE ${ARGN})
endfunction()
