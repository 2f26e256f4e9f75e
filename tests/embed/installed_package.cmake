# Shared by the scripts of the embedding tests: they build and run programs against the package that install_test.cmake
# has installed in install_dir/prefix. ctest runs such a script as
#   cmake -D build_dir=... -D config=... -D generator=... -D install_dir=... -D embed_dir=... -P script.cmake
# It works in embed_dir.

get_filename_component(source_dir "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
unset(ENV{DESTDIR})

# run(<command> [<argument>...]): leaves what the command printed in `output`.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${status}:\n${output}${errors}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# extract(<section> <language> <file>): the first block of that section of docs/embedding.md that is fenced as this language.
function(extract section language file)
  file(READ "${source_dir}/docs/embedding.md" text)
  foreach(mark IN ITEMS "\n## ${section}\n" "\n```${language}\n")
    string(FIND "${text}" "${mark}" begin)
    if(begin EQUAL -1)
      message(FATAL_ERROR "docs/embedding.md lacks this, or has it elsewhere:${mark}")
    endif()
    string(LENGTH "${mark}" length)
    math(EXPR begin "${begin} + ${length}")
    string(SUBSTRING "${text}" ${begin} -1 text)
  endforeach()
  string(FIND "${text}" "\n```" end)
  string(SUBSTRING "${text}" 0 ${end} text)
  file(WRITE "${file}" "${text}\n")
endfunction()

# configure(<name of build folder> <source folder> [<argument>...]): leaves `configure_command`, to be run.
function(configure name source)
  set(build "${embed_dir}/${name}-build")
  file(REMOVE_RECURSE "${build}")
  set(configure_command "${CMAKE_COMMAND}" -S "${source}" -B "${build}" -G "${generator}"
    -C "${install_dir}/cache.cmake" ${ARGN} PARENT_SCOPE)
endfunction()

# without(<package>...): leaves `without_packages`, the arguments with which CMake finds none of these.
function(without)
  list(TRANSFORM ARGN REPLACE "(.+)" "-DCMAKE_DISABLE_FIND_PACKAGE_\\1=ON" OUTPUT_VARIABLE without_packages)
  set(without_packages "${without_packages}" PARENT_SCOPE)
endfunction()

# build_and_run(<name> <source folder> <program> EXPECTED <what it must print> | MATCHING <regular expression> [CONFIGURE <argument>...]
#   [ARGUMENTS <argument>...])
function(build_and_run name source program)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "EXPECTED;MATCHING" "CONFIGURE;ARGUMENTS")
  configure("${name}" "${source}" ${arg_CONFIGURE})
  run(${configure_command})
  set(build "${embed_dir}/${name}-build")
  run("${CMAKE_COMMAND}" --build "${build}" --config "${config}")
  find_program(found_${name} "${program}" PATHS "${build}" "${build}/${config}" NO_DEFAULT_PATH NO_CACHE REQUIRED)
  run("${found_${name}}" ${arg_ARGUMENTS})
  if(DEFINED arg_MATCHING AND NOT output MATCHES "${arg_MATCHING}")
    message(FATAL_ERROR "${program} printed\n${output}which does not match\n${arg_MATCHING}")
  elseif(NOT DEFINED arg_MATCHING AND NOT output STREQUAL arg_EXPECTED)
    message(FATAL_ERROR "${program} printed\n${output}instead of\n${arg_EXPECTED}")
  endif()
  message(STATUS "${name}: built and run")
endfunction()

# expect_refusal(<name> <source folder> <text> [<argument>...]): CMake must refuse the folder, and say this text.
function(expect_refusal name source text)
  configure("${name}" "${source}" ${ARGN})
  execute_process(COMMAND ${configure_command} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  string(REGEX REPLACE "[ \n]+" " " errors "${errors}")  # CMake breaks lines
  string(FIND "${errors}" "${text}" found)
  if(status EQUAL 0 OR found EQUAL -1)
    message(FATAL_ERROR "CMake ended with ${status} and did not say '${text}':\n${errors}")
  endif()
  message(STATUS "${name}: refused as it should be")
endfunction()
