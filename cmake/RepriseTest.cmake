# reprise_test(NAME <name> SOURCES <file>... [LIBS <target>...] [LABELS <label>...])
#
# One GoogleTest executable whose tests ctest knows one by one, as <name>.<Suite>.<Test>, each with the given
# labels and five minutes to finish. Where there is a target <label>_tests, it builds all tests of that label. Those
# named cuda_... are one to ctest. A run in which every test is skipped ends with 77 (tests/test_main.cc) and counts as
# skipped, as does the mark of a skipped test in the output of one that gtest_discover_tests runs.

include(GoogleTest)

function(reprise_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;LIBS;LABELS")
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS} reprise_source_folder reprise_test_main)
  foreach(label IN LISTS arg_LABELS)
    if(TARGET ${label}_tests)
      add_dependencies(${label}_tests ${arg_NAME})
    endif()
  endforeach()
  # Where there is no GPU, hundreds of processes would start to say so.
  if(arg_NAME MATCHES "^cuda_")
    add_test(NAME ${arg_NAME} COMMAND ${arg_NAME})
    set_tests_properties(${arg_NAME} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 1200 SKIP_RETURN_CODE 77)
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
