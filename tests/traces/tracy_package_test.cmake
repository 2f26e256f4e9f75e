# What cmake/RepriseTracy.cmake makes of packages of several versions, which this script invents. ctest runs it as
#   cmake -D scratch=FOLDER -P tracy_package_test.cmake

cmake_minimum_required(VERSION 3.25)

# package(<version or none> [<definition>...]): writes one to scratch/package. Before 0.12 none tells its version.
function(package version)
  set(folder "${scratch}/package")
  file(REMOVE_RECURSE "${folder}")
  list(JOIN ARGN ";" definitions)
  file(WRITE "${folder}/TracyConfig.cmake" "add_library(Tracy::TracyClient INTERFACE IMPORTED)
set_target_properties(Tracy::TracyClient PROPERTIES INTERFACE_COMPILE_DEFINITIONS \"${definitions}\"
  INTERFACE_INCLUDE_DIRECTORIES \"${folder}/include\")\n")
  file(MAKE_DIRECTORY "${folder}/include")
  if(version MATCHES "^([0-9]+)\\.([0-9]+)\\.([0-9]+)$")
    file(WRITE "${folder}/include/common/TracyVersion.hpp" "namespace tracy::Version\n{\nconstexpr int Major = ${CMAKE_MATCH_1};
constexpr int Minor = ${CMAKE_MATCH_2};\nconstexpr int Patch = ${CMAKE_MATCH_3};\n}\n")
  endif()
endfunction()

# expect(<text> [<argument>...]): what CMake prints has this text.
function(expect text)
  file(REMOVE_RECURSE "${scratch}/build")
  execute_process(COMMAND "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/tracy_package" -B "${scratch}/build"
    "-DTracy_DIR=${scratch}/package" ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")  # CMake breaks lines
  string(FIND "${output}" "${text}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "CMake with ${ARGN} did not say '${text}':\n${output}")
  endif()
endfunction()

package(0.14.0 TRACY_ENABLE TRACY_ON_DEMAND TRACY_FIBERS)
expect("decided: tracy=OFF fibers=OFF cuda=OFF")  # off by default, even where it is
expect("decided: tracy=ON fibers=ON cuda=OFF" -DREPRISE_TRACY=ON)
expect("decided: tracy=ON fibers=ON cuda=ON" -DREPRISE_TRACY=ON -Dwith_cuda=ON)
expect("Tracy: 0.14.0 in" -DREPRISE_TRACY=ON)
expect("REPRISE_TRACY=ON has nothing to tell" -DREPRISE_TRACY=ON -DREPRISE_TRACE=OFF)

package(0.13.1 TRACY_ENABLE TRACY_ON_DEMAND TRACY_FIBERS)
expect("decided: tracy=ON fibers=ON cuda=OFF" -DREPRISE_TRACY=ON -Dwith_cuda=ON)
expect("no timeline of the GPU (with TRACY_ON_DEMAND it needs 0.14)" -DREPRISE_TRACY=ON -Dwith_cuda=ON)

package(0.12.2 TRACY_ENABLE TRACY_ON_DEMAND TRACY_FIBERS)
expect("no tracks of actors (TRACY_FIBERS with TRACY_ON_DEMAND needs 0.13)" -DREPRISE_TRACY=ON)

package(none TRACY_ENABLE TRACY_FIBERS)
expect("Tracy: 0.11 in" -DREPRISE_TRACY=ON)
expect("decided: tracy=ON fibers=ON cuda=OFF" -DREPRISE_TRACY=ON -Dwith_cuda=ON)
expect("built without TRACY_ON_DEMAND" -DREPRISE_TRACY=ON)

package(0.14.0 TRACY_ON_DEMAND)
expect("was built without TRACY_ENABLE" -DREPRISE_TRACY=ON)

file(REMOVE_RECURSE "${scratch}/package")
expect("Could not find a package configuration file provided by \"Tracy\"" -DREPRISE_TRACY=ON)
