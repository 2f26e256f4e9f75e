# REPRISE_FUZZ: reprise_fuzz (tests/fuzz) with libFuzzer, and everything below it with coverage, AddressSanitizer and
# UndefinedBehaviorSanitizer. The programs that have a main() of their own still link, without libFuzzer's.

option(REPRISE_FUZZ "Build the fuzzers (clang)" OFF)

if(REPRISE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "REPRISE_FUZZ needs clang, which libFuzzer comes with; this is ${CMAKE_CXX_COMPILER_ID}")
  endif()
  # The library's own assertions find what lies outside of a span or view but inside of its allocation.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link,address,undefined;-fno-sanitize-recover=all>"
    "$<$<COMPILE_LANGUAGE:CXX>:-O1;-gline-tables-only;-fno-omit-frame-pointer;-foptimize-sibling-calls>"
    "$<$<COMPILE_LANGUAGE:CXX>:-D_GLIBCXX_ASSERTIONS>")
  add_link_options(-fsanitize=address,undefined)
  message(STATUS "Fuzzers: on")
endif()
