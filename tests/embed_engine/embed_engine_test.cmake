# Builds the host beside this file, and the program that docs/embedding.md prints, against the installed package, and runs them. See
# tests/embed/installed_package.cmake for how it is run.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../embed/installed_package.cmake")

build_and_run(engine_host "${CMAKE_CURRENT_LIST_DIR}" engine_host
  ARGUMENTS "${source_dir}/tests/data/models/qwen3_5_text"
  EXPECTED "the model is loaded
first turn: 0 tokens restored, never_seen
second turn: tokens restored, the answer is the cold one
stopped cleanly
")

# The program printed in docs/embedding.md, with the built-in model of the installed package.
file(REMOVE_RECURSE "${embed_dir}/printed")
extract("Embedding the engine" cmake "${embed_dir}/printed/CMakeLists.txt")
extract("Embedding the engine" cpp "${embed_dir}/printed/main.cc")
build_and_run(printed "${embed_dir}/printed" my_chat MATCHING "^[^\n]+
  did not begin from a snapshot
Your name is Ada.
  began from a snapshot
$")

# The unit names the prefix of the installation.
file(READ "${install_dir}/prefix/lib/systemd/system/reprise.service" unit)
string(FIND "${unit}" "\nExecStart=${install_dir}/first/bin/reprise serve --config ${install_dir}/first/etc/reprise/reprise.toml\n" found)
if(found EQUAL -1 OR NOT EXISTS "${install_dir}/prefix/etc/reprise/reprise.toml")
  message(FATAL_ERROR "the unit starts something else than was installed, or has no settings:\n${unit}")
endif()
foreach(page IN ITEMS man/man1/reprise.1 bash-completion/completions/reprise zsh/vendor-completions/_reprise
    fish/vendor_completions.d/reprise.fish)
  if(NOT EXISTS "${install_dir}/prefix/share/${page}")
    message(FATAL_ERROR "share/${page} was not installed")
  endif()
endforeach()

without(PCRE2 simdjson)
expect_refusal(engine_refused "${CMAKE_CURRENT_LIST_DIR}" "needs packages that were not found: PCRE2, simdjson"
  ${without_packages})
