# Compiler settings of every target below this directory. They are scoped to our directories, so a project
# that adds Reprise with add_subdirectory() keeps its own.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set(REPRISE_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined together or one of them, thread, or empty")
set_property(CACHE REPRISE_SANITIZE PROPERTY STRINGS "" address,undefined address undefined thread)

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  find_program(REPRISE_CCACHE ccache)
  mark_as_advanced(REPRISE_CCACHE)
  # Clones and worktrees on one machine share what was compiled: their paths are taken from the top of the tree.
  set(reprise_launcher "${CMAKE_COMMAND}" -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 "${REPRISE_CCACHE}")
  foreach(language IN ITEMS CXX CUDA)
    if(REPRISE_CCACHE AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER "${reprise_launcher}")
    endif()
  endforeach()
endif()

# -Werror; `cmake --compile-no-warning-as-error` turns it off for a compiler newer than ours.
if(NOT DEFINED CMAKE_COMPILE_WARNING_AS_ERROR)
  set(CMAKE_COMPILE_WARNING_AS_ERROR ${PROJECT_IS_TOP_LEVEL})
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>" "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")

# For a build from nothing on few cores: headers and templates, half of the work, are done once for many sources, and the
# compiler looks for rubbish less often. It wants up to 2 GB of memory a core.
option(REPRISE_LARGE_UNITS "Compile many sources as one: less work in all, less of it side by side" OFF)
if(REPRISE_LARGE_UNITS)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 32)
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-expand=300;--param=ggc-min-heapsize=524288>")
endif()

# Sources that are compiled together are one to g++, which takes what stands in them for a header.
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>")
endif()

# What -O3 adds to -O2 costs a third of the compiler's time, and only the kernels gain by it (gpu/CMakeLists.txt).
add_compile_options("$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O2>")

# Optimised enough that a coroutine which hands over by tail call needs no stack; the runtime's own do not rely on it.
add_compile_options("$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Debug>>:-Og;-foptimize-sibling-calls>")

# For what nobody waits for when it runs, but everybody when it is compiled. Where g++ 12 inlines less it warns in vain of
# what it no longer sees through; what a sanitizer looks for it finds without the optimiser too, in half of the compiler's
# time.
set(reprise_sooner
  "$<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<CONFIG:Release>>:-O1;-Wno-maybe-uninitialized;-Wno-array-bounds>"
  "$<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<CONFIG:Release>>:-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-restrict>"
  "$<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<CONFIG:Release>>:--param=ggc-min-expand=300;--param=ggc-min-heapsize=262144>")
if(REPRISE_SANITIZE)
  list(APPEND reprise_sooner "$<$<COMPILE_LANGUAGE:CXX>:-O0>")
endif()

# reprise_compile_sooner(TARGET): for command lines and reports.
function(reprise_compile_sooner target)
  target_compile_options(${target} PRIVATE "${reprise_sooner}")
endfunction()

# reprise_compile_folder_sooner(): for tests, every target of the caller's folder and those below it that is added afterwards.
macro(reprise_compile_folder_sooner)
  add_compile_options("${reprise_sooner}")
endmacro()

if(REPRISE_SANITIZE)
  if(NOT REPRISE_SANITIZE MATCHES "^(address,undefined|address|undefined|thread)$")
    message(FATAL_ERROR "REPRISE_SANITIZE is '${REPRISE_SANITIZE}'; it takes address,undefined, address, undefined, thread or "
      "nothing")
  endif()
  # Lines are all that a report needs of debug information; more of it doubles the objects.
  set(reprise_debug_lines "$<IF:$<CXX_COMPILER_ID:Clang,AppleClang>,-gline-tables-only,-g1>")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${REPRISE_SANITIZE};-fno-sanitize-recover=all>"
    "$<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer;${reprise_debug_lines};-O1;-foptimize-sibling-calls>")
  add_link_options(-fsanitize=${REPRISE_SANITIZE})
  message(STATUS "Sanitizer: ${REPRISE_SANITIZE}")
endif()
