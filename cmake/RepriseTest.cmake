# reprise_test(NAME <name> [FOLDERS <folder>...] [SOURCES <file>...] [WITHOUT <file>...] [LIBS <target>...] [LABELS <label>...])
#
# One GoogleTest program of the named sources and of every *_test.cc in the named folders, but those named after WITHOUT.
# ctest knows its tests one by one, as <name>.<Suite>.<Test>, each with the given labels and five minutes to finish. Under a
# sanitizer, where starting a process costs more than most tests, ctest knows the program as REPRISE_TEST_SHARDS processes
# that share its tests. A program named cuda_... is one test to ctest: without a GPU all of it is skipped. Where there is a
# target <label>_tests, it builds all tests of that label. A run in which
# every test is skipped ends with 77 (tests/test_main.cc) and counts as skipped.

include(GoogleTest)

set(REPRISE_TEST_SHARDS 4)

function(reprise_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "FOLDERS;SOURCES;WITHOUT;LIBS;LABELS")
  foreach(folder IN LISTS arg_FOLDERS)
    file(GLOB found CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" "${folder}/*_test.cc")
    list(APPEND arg_SOURCES ${found})
  endforeach()
  list(REMOVE_DUPLICATES arg_SOURCES)
  list(REMOVE_ITEM arg_SOURCES "" ${arg_WITHOUT})
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS} reprise_source_folder reprise_test_main)
  foreach(label IN LISTS arg_LABELS)
    if(TARGET ${label}_tests)
      add_dependencies(${label}_tests ${arg_NAME})
    endif()
  endforeach()
  if(arg_NAME MATCHES "^cuda_")
    add_test(NAME ${arg_NAME} COMMAND ${arg_NAME})
    set_tests_properties(${arg_NAME} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 1200 SKIP_RETURN_CODE 77)
    return()
  endif()
  if(REPRISE_SANITIZE)
    math(EXPR last "${REPRISE_TEST_SHARDS} - 1")
    foreach(shard RANGE ${last})
      add_test(NAME ${arg_NAME}.${shard} COMMAND ${arg_NAME})
      set_tests_properties(${arg_NAME}.${shard} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 1200 SKIP_RETURN_CODE 77
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${REPRISE_TEST_SHARDS};GTEST_SHARD_INDEX=${shard}")
    endforeach()
    return()
  endif()
  gtest_discover_tests(${arg_NAME}
    TEST_PREFIX ${arg_NAME}.
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 120
    PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
  # gtest_discover_tests would keep the first label only, so ctest reads them from a file of their own.
  set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}_labels.cmake")
  file(WRITE "${labels_file}" "if(${arg_NAME}_TESTS)
  set_tests_properties(\${${arg_NAME}_TESTS} PROPERTIES LABELS \"${arg_LABELS}\")
endif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
endfunction()
