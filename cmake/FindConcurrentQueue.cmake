# Finds moodycamel's ConcurrentQueue and defines concurrentqueue::concurrentqueue, a header-only target with
# which `#include <concurrentqueue.h>` works. Debian installs the header as concurrentqueue/concurrentqueue.h,
# vcpkg as concurrentqueue/moodycamel/concurrentqueue.h or moodycamel/concurrentqueue.h.

find_path(ConcurrentQueue_INCLUDE_DIR concurrentqueue.h
  PATH_SUFFIXES concurrentqueue/moodycamel moodycamel concurrentqueue)
mark_as_advanced(ConcurrentQueue_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ConcurrentQueue REQUIRED_VARS ConcurrentQueue_INCLUDE_DIR)

if(ConcurrentQueue_FOUND AND NOT TARGET concurrentqueue::concurrentqueue)
  add_library(concurrentqueue::concurrentqueue INTERFACE IMPORTED)
  target_include_directories(concurrentqueue::concurrentqueue SYSTEM INTERFACE "${ConcurrentQueue_INCLUDE_DIR}")
endif()
