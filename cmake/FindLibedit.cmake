# Finds libedit and defines Libedit::libedit, with which `#include <histedit.h>` works. A static one (vcpkg's) does not say
# that it needs the system's curses.

find_path(Libedit_INCLUDE_DIR histedit.h)
find_library(Libedit_LIBRARY NAMES edit)
mark_as_advanced(Libedit_INCLUDE_DIR Libedit_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libedit REQUIRED_VARS Libedit_LIBRARY Libedit_INCLUDE_DIR)

if(Libedit_FOUND AND NOT TARGET Libedit::libedit)
  add_library(Libedit::libedit UNKNOWN IMPORTED)
  set_target_properties(Libedit::libedit PROPERTIES
    IMPORTED_LOCATION "${Libedit_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${Libedit_INCLUDE_DIR}")
  if(Libedit_LIBRARY MATCHES "\\.a$")
    set(CURSES_NEED_NCURSES ON)
    find_package(Curses REQUIRED)
    set_target_properties(Libedit::libedit PROPERTIES INTERFACE_LINK_LIBRARIES "${CURSES_LIBRARIES}")
  endif()
endif()
