# REPRISE_TRACY=AUTO|ON|OFF decides whether traces/ reports to the Tracy profiler; sets REPRISE_HAS_TRACY to
# the outcome. AUTO uses Tracy when its CMake package is found, ON fails without it.

set(REPRISE_TRACY AUTO CACHE STRING "Trace with Tracy: AUTO, ON or OFF")
set_property(CACHE REPRISE_TRACY PROPERTY STRINGS AUTO ON OFF)

set(REPRISE_HAS_TRACY OFF)
if(REPRISE_TRACY STREQUAL "AUTO")
  find_package(Tracy CONFIG QUIET)
elseif(REPRISE_TRACY)
  find_package(Tracy CONFIG REQUIRED)
endif()
if(REPRISE_TRACY AND TARGET Tracy::TracyClient)
  set(REPRISE_HAS_TRACY ON)
  message(STATUS "Tracy: used, ${Tracy_DIR}")
else()
  message(STATUS "Tracy: not used (REPRISE_TRACY=${REPRISE_TRACY})")
endif()
