# Builds the host beside this file against the installed package, and runs it on a small model. See
# tests/embed/installed_package.cmake for how it is run.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../embed/installed_package.cmake")

install_package()

build_and_run(engine_host "${CMAKE_CURRENT_LIST_DIR}" engine_host
  ARGUMENTS "${source_dir}/tests/data/models/qwen3_5_text"
  EXPECTED "the model is loaded
first turn: 0 tokens restored, never_seen
second turn: tokens restored, the answer is the cold one
stopped cleanly
")

without(PCRE2 simdjson)
expect_refusal(engine_refused "${CMAKE_CURRENT_LIST_DIR}" "needs packages that were not found: PCRE2, simdjson"
  ${without_packages})
