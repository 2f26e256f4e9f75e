# Builds the host beside this file against the installed package, lets it trace itself, and looks for its actor. With a
# package that has Tracy, and where tracy-capture is (tracy_bin), Tracy must have seen it too. See
# tests/embed/installed_package.cmake for how it is run.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../embed/installed_package.cmake")

set(trace "${embed_dir}/host.json")
file(REMOVE "${trace}")
build_and_run(traced_host "${CMAKE_CURRENT_LIST_DIR}" traced_host ARGUMENTS "${trace}"
  EXPECTED "weighed 21 g\nthe trace is complete\n")

file(READ "${trace}" text)
foreach(wanted IN ITEMS
    "\"name\":\"thread_name\",\"args\":{\"name\":\"scale\"}"
    "\"name\":\"Weigh\""
    "\"wait_us\":"
    "\"name\":\"weighing\",\"args\":{\"text\":\"6 g\"}"
    "\"name\":\"weight on the scale\",\"args\":{\"value\":21")
  string(FIND "${text}" "${wanted}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "the host's trace has no ${wanted}:\n${text}")
  endif()
endforeach()
message(STATUS "the host's actor is in its trace")

if(tracy_bin)
  find_program(host traced_host PATHS "${embed_dir}/traced_host-build" "${embed_dir}/traced_host-build/${config}"
    NO_DEFAULT_PATH NO_CACHE REQUIRED)
  run("${python}" "${CMAKE_CURRENT_LIST_DIR}/seen_by_tracy.py" "${host}" "${tracy_bin}")
  message(STATUS "${output}")
elseif(",$ENV{REPRISE_REQUIRE}," MATCHES ",tracy,")
  message(FATAL_ERROR "REPRISE_REQUIRE names 'tracy', and there is none: no tracy-capture, or a build without Tracy")
else()
  message("skipped for want of tracy: no tracy-capture, or a build without Tracy")
endif()
