# Installs the build tree, moves the installed package, and builds and runs two programs against it: the host beside
# this file, and the one that README.md prints. ctest runs it as
#   cmake -D build_dir=... -D config=... -D generator=... -D embed_dir=... -P embed_test.cmake
# It works in embed_dir, where it finds cache.cmake (from cache.cmake.in).

cmake_minimum_required(VERSION 3.25)
get_filename_component(source_dir "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
unset(ENV{DESTDIR})
foreach(name IN ITEMS first prefix host host-build readme readme-build)
  file(REMOVE_RECURSE "${embed_dir}/${name}")
endforeach()

# run(<command> [<argument>...]): leaves what the command printed in `output`.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${status}:\n${output}${errors}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# build_and_run(<name of build folder> <source folder> <program> <what it must print>)
function(build_and_run name source program expected)
  set(build "${embed_dir}/${name}-build")
  run("${CMAKE_COMMAND}" -S "${source}" -B "${build}" -G "${generator}" -C "${embed_dir}/cache.cmake")
  run("${CMAKE_COMMAND}" --build "${build}" --config "${config}")
  find_program(found_${name} "${program}" PATHS "${build}" "${build}/${config}" NO_DEFAULT_PATH NO_CACHE REQUIRED)
  run("${found_${name}}")
  if(NOT output STREQUAL expected)
    message(FATAL_ERROR "${program} printed\n${output}instead of\n${expected}")
  endif()
  message(STATUS "${name}: built and run")
endfunction()

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

run("${CMAKE_COMMAND}" --install "${build_dir}" --prefix "${embed_dir}/first" --config "${config}")
file(RENAME "${embed_dir}/first" "${embed_dir}/prefix")  # a package that works only where it was installed would fail

build_and_run(host "${CMAKE_CURRENT_LIST_DIR}" host "the host's own handler
word: no
word: prefix
word: is
word: computed
word: twice
ended well, stopped cleanly
")

extract(cmake "${embed_dir}/readme/CMakeLists.txt")
extract(cpp "${embed_dir}/readme/main.cc")
build_and_run(readme "${embed_dir}/readme" my_program "the total is 5\n")
