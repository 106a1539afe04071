# Settings that every target shares, and paceline_module(): one static library per folder of src/,
# linked only to the folders that it may see, with the folder's *_test.cc files as one test program.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(PACELINE_CCACHE ccache)
if(PACELINE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${PACELINE_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${PACELINE_CCACHE}")
endif()
find_program(PACELINE_MOLD mold)
if(PACELINE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fno-omit-frame-pointer)

set(PACELINE_SANITIZE "" CACHE STRING "Sanitizers: empty, address,undefined or thread")
if(PACELINE_SANITIZE)
  # GCC 12 warns of uninitialised variants where the sanitizers have rewritten their copies.
  add_compile_options(-fsanitize=${PACELINE_SANITIZE} -fno-sanitize-recover=all
                      -Wno-maybe-uninitialized)
  add_link_options(-fsanitize=${PACELINE_SANITIZE})
endif()

option(PACELINE_FUZZ "Build the fuzz targets of tests/fuzz; needs clang" OFF)
if(PACELINE_FUZZ)
  # Everything is instrumented for coverage. Warnings are the release build's to judge. More than -O1
  # costs more in the build than it gains in the run.
  add_compile_options(-O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
                      -Wno-error)
  add_link_options(-fsanitize=address,undefined)
endif()

find_package(Threads REQUIRED)
find_package(GTest REQUIRED)

# paceline_module(NAME [DEPS module...] [LIBS library...])
#   Builds lib<NAME> from every *.cc of the current folder except *_test.cc, and <NAME>_test from the rest.
#   DEPS are the other folders it may include; LIBS are outside libraries (never in base and core).
function(paceline_module name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|main)\\.cc$")
  if(sources)
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} PUBLIC "${CMAKE_SOURCE_DIR}/src" "${CMAKE_SOURCE_DIR}/include")
    target_link_libraries(${name} PUBLIC ${ARG_DEPS} ${ARG_LIBS})
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE "${CMAKE_SOURCE_DIR}/src" "${CMAKE_SOURCE_DIR}/include")
    target_link_libraries(${name} INTERFACE ${ARG_DEPS} ${ARG_LIBS})
  endif()
  if(tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ${name} GTest::gtest_main GTest::gtest Threads::Threads)
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 120)
  endif()
endfunction()
