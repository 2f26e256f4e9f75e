# Builds and runs two programs against the installed package: the host beside this file, and the one that README.md
# prints. See installed_package.cmake for how it is run.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/installed_package.cmake")

# extract(<language> <file>): the first block of README.md's section on embedding that is fenced as this language.
function(extract language file)
  file(READ "${source_dir}/README.md" text)
  foreach(mark IN ITEMS "\n## Embedding the runtime\n" "\n```${language}\n")
    string(FIND "${text}" "${mark}" begin)
    if(begin EQUAL -1)
      message(FATAL_ERROR "README.md lacks this, or has it elsewhere:${mark}")
    endif()
    string(LENGTH "${mark}" length)
    math(EXPR begin "${begin} + ${length}")
    string(SUBSTRING "${text}" ${begin} -1 text)
  endforeach()
  string(FIND "${text}" "\n```" end)
  string(SUBSTRING "${text}" 0 ${end} text)
  file(WRITE "${file}" "${text}\n")
endfunction()

install_package()
without(PCRE2 simdjson Utf8proc CUDAToolkit)  # the engine's: the runtime must not need them

build_and_run(host "${CMAKE_CURRENT_LIST_DIR}" host CONFIGURE ${without_packages} EXPECTED "the host's own handler
word: no
word: prefix
word: is
word: computed
word: twice
ended well, stopped cleanly
")

file(REMOVE_RECURSE "${embed_dir}/readme")
extract(cmake "${embed_dir}/readme/CMakeLists.txt")
extract(cpp "${embed_dir}/readme/main.cc")
build_and_run(readme "${embed_dir}/readme" my_program CONFIGURE ${without_packages} EXPECTED "the total is 5\n")
