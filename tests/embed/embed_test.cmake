# Builds and runs two programs against the installed package: the host beside this file, and the one that
# docs/embedding.md prints; and the host once more with the source tree within it. See installed_package.cmake for how it is
# run.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/installed_package.cmake")

without(PCRE2 simdjson Utf8proc CUDAToolkit)  # the engine's: the runtime must not need them

set(said "the host's own handler
word: no
word: prefix
word: is
word: computed
word: twice
ended well, stopped cleanly
")
build_and_run(host "${CMAKE_CURRENT_LIST_DIR}" host CONFIGURE ${without_packages} EXPECTED "${said}")

file(REMOVE_RECURSE "${embed_dir}/readme")
extract("Embedding the runtime" cmake "${embed_dir}/readme/CMakeLists.txt")
extract("Embedding the runtime" cpp "${embed_dir}/readme/main.cc")
build_and_run(readme "${embed_dir}/readme" my_program CONFIGURE ${without_packages} EXPECTED "the total is 5\n")

# add_subdirectory(): neither tests nor program are built, and their dependencies are not needed.
without(GTest CLI11 spdlog prometheus-cpp tomlplusplus CURL Libedit)
build_and_run(host_of_sources "${CMAKE_CURRENT_LIST_DIR}" host EXPECTED "${said}"
  CONFIGURE -D "REPRISE_SOURCE=${source_dir}" -D REPRISE_CUDA=OFF -D REPRISE_TRACY=OFF ${without_packages})
