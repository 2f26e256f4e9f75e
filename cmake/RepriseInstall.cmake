# `cmake --install` gives a relocatable package: find_package(reprise) -> reprise::runtime, reprise::traces.

include(CMakePackageConfigHelpers)

set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/reprise")

install(TARGETS reprise_traces reprise_runtime EXPORT reprise)
install(EXPORT reprise FILE reprise-targets.cmake NAMESPACE reprise:: DESTINATION "${config_dir}")
install(DIRECTORY traces runtime DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/reprise" FILES_MATCHING PATTERN "*.h"
  PATTERN "examples" EXCLUDE)

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/reprise-config.cmake.in"
  "${PROJECT_BINARY_DIR}/reprise-config.cmake" INSTALL_DESTINATION "${config_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/reprise-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/reprise-config.cmake" "${PROJECT_BINARY_DIR}/reprise-config-version.cmake"
  DESTINATION "${config_dir}")

if(TARGET reprise)
  install(TARGETS reprise RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  configure_file("${PROJECT_SOURCE_DIR}/tools/reprise.service.in" "${PROJECT_BINARY_DIR}/reprise.service" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/reprise.service" DESTINATION lib/systemd/system)
endif()
