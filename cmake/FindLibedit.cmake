# Finds libedit and defines Libedit::libedit, with which `#include <histedit.h>` works.

find_path(Libedit_INCLUDE_DIR histedit.h)
find_library(Libedit_LIBRARY NAMES edit)
mark_as_advanced(Libedit_INCLUDE_DIR Libedit_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libedit REQUIRED_VARS Libedit_LIBRARY Libedit_INCLUDE_DIR)

if(Libedit_FOUND AND NOT TARGET Libedit::libedit)
  add_library(Libedit::libedit UNKNOWN IMPORTED)
  set_target_properties(Libedit::libedit PROPERTIES
    IMPORTED_LOCATION "${Libedit_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${Libedit_INCLUDE_DIR}")
endif()
