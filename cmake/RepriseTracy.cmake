# REPRISE_TRACY=ON makes traces/ speak to the Tracy profiler as well; it needs Tracy's CMake package, and is off by
# default. Sets
#   REPRISE_HAS_TRACY     the outcome
#   REPRISE_TRACY_FIBERS  whether actors get tracks of their own there
#   REPRISE_TRACY_CUDA    whether the GPU's timeline is told, where there is a GPU
# and says what the Tracy that was found can do:
#   tracks of actors     a Tracy built with TRACY_FIBERS; together with TRACY_ON_DEMAND from 0.13 on
#   the GPU's timeline   from 0.12 on; together with TRACY_ON_DEMAND from 0.14 on
# What it cannot do is left out: actors are then drawn on their threads' lines, with their names as text.

option(REPRISE_TRACY "Trace with the Tracy profiler" OFF)

set(REPRISE_HAS_TRACY OFF)
set(REPRISE_TRACY_FIBERS OFF)
set(REPRISE_TRACY_CUDA OFF)
if(NOT REPRISE_TRACY)
  message(STATUS "Tracy: not used (REPRISE_TRACY=${REPRISE_TRACY})")
  return()
endif()
if(DEFINED REPRISE_TRACE AND NOT REPRISE_TRACE)
  message(FATAL_ERROR "REPRISE_TRACY=ON has nothing to tell with REPRISE_TRACE=OFF")
endif()

find_package(Tracy CONFIG REQUIRED)
get_target_property(tracy_options Tracy::TracyClient INTERFACE_COMPILE_DEFINITIONS)
if(NOT "TRACY_ENABLE" IN_LIST tracy_options)
  message(FATAL_ERROR "The Tracy in ${Tracy_DIR} was built without TRACY_ENABLE: nothing would be traced")
endif()

# The package tells its version in a header at best, and before 0.12 not at all.
set(tracy_version "${Tracy_VERSION}")
get_target_property(tracy_include Tracy::TracyClient INTERFACE_INCLUDE_DIRECTORIES)
list(GET tracy_include 0 tracy_include)
if(NOT tracy_version AND EXISTS "${tracy_include}/common/TracyVersion.hpp")
  file(READ "${tracy_include}/common/TracyVersion.hpp" text)
  if(text MATCHES "Major = ([0-9]+).*Minor = ([0-9]+).*Patch = ([0-9]+)")
    set(tracy_version "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3}")
  endif()
endif()
if(NOT tracy_version)
  set(tracy_version 0.11)
  if(EXISTS "${tracy_include}/tracy/TracyCUDA.hpp")
    set(tracy_version 0.12)
  endif()
endif()

set(tracy_lacks "")
if(NOT "TRACY_FIBERS" IN_LIST tracy_options)
  list(APPEND tracy_lacks "no tracks of actors (built without TRACY_FIBERS)")
elseif("TRACY_ON_DEMAND" IN_LIST tracy_options AND tracy_version VERSION_LESS 0.13)
  list(APPEND tracy_lacks "no tracks of actors (TRACY_FIBERS with TRACY_ON_DEMAND needs 0.13)")
else()
  set(REPRISE_TRACY_FIBERS ON)
endif()
if(REPRISE_HAS_CUDA)
  if(tracy_version VERSION_LESS 0.12)
    list(APPEND tracy_lacks "no timeline of the GPU (needs 0.12)")
  elseif("TRACY_ON_DEMAND" IN_LIST tracy_options AND tracy_version VERSION_LESS 0.14)
    list(APPEND tracy_lacks "no timeline of the GPU (with TRACY_ON_DEMAND it needs 0.14)")
  elseif(NOT TARGET CUDA::cupti)
    list(APPEND tracy_lacks "no timeline of the GPU (CUPTI was not found beside the CUDA toolkit)")
  else()
    set(REPRISE_TRACY_CUDA ON)
  endif()
endif()
if(NOT "TRACY_ON_DEMAND" IN_LIST tracy_options)
  message(WARNING "This Tracy was built without TRACY_ON_DEMAND: a program keeps all events in memory from its start until "
    "a profiler connects, which can happen once")
endif()

# Sessions name source files; they are to be the same wherever the tree lies.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>")

set(REPRISE_HAS_TRACY ON)
list(PREPEND tracy_lacks "${tracy_version} in ${Tracy_DIR}")
list(JOIN tracy_lacks ", " tracy_summary)
message(STATUS "Tracy: ${tracy_summary}")
