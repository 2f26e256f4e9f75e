# `cmake --install` gives a relocatable package with two components:
#   runtime   reprise::runtime, reprise::traces and reprise::base, which need Threads and Boost's headers alone
#   engine    reprise::engine and what it is made of, which need what cmake/reprise-config.cmake.in looks for
# Each is an export of its own, so that a host without the engine's packages can have the runtime.

include(CMakePackageConfigHelpers)

set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/reprise")
set(include_dir "${CMAKE_INSTALL_INCLUDEDIR}/reprise")

install(TARGETS reprise_base reprise_traces reprise_runtime EXPORT reprise-runtime)
install(TARGETS reprise_ground reprise_gpu reprise_models reprise_protocol reprise_actors reprise_engine EXPORT reprise-engine)
if(TARGET reprise_gpu_timeline)
  install(TARGETS reprise_gpu_timeline EXPORT reprise-engine)
endif()
foreach(component IN ITEMS runtime engine)
  install(EXPORT reprise-${component} FILE reprise-${component}-targets.cmake NAMESPACE reprise::
    DESTINATION "${config_dir}")
endforeach()

install(DIRECTORY base traces runtime DESTINATION "${include_dir}" FILES_MATCHING PATTERN "*.h"
  PATTERN "examples" EXCLUDE)
# Without what no header of the engine includes: the HTTP server, the template interpreter and the kernels.
install(DIRECTORY gpu models protocol actors DESTINATION "${include_dir}" FILES_MATCHING PATTERN "*.h"
  PATTERN "gpu/cpu" EXCLUDE PATTERN "gpu/cuda" EXCLUDE PATTERN "protocol/http" EXCLUDE PATTERN "protocol/jinja" EXCLUDE)

set(REPRISE_BUILTIN_DIR "${CMAKE_INSTALL_DATADIR}/reprise/builtin")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/reprise-config.cmake.in"
  "${PROJECT_BINARY_DIR}/reprise-config.cmake" INSTALL_DESTINATION "${config_dir}" PATH_VARS REPRISE_BUILTIN_DIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/reprise-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/reprise-config.cmake" "${PROJECT_BINARY_DIR}/reprise-config-version.cmake"
  DESTINATION "${config_dir}")
install(FILES cmake/FindHiredis.cmake cmake/FindPCRE2.cmake cmake/FindUtf8proc.cmake cmake/FindZstd.cmake
  DESTINATION "${config_dir}/modules")

# The program and what a service needs of it: all of it is the component `program`, which the Debian package is made of.
install(DIRECTORY models/builtin DESTINATION "${CMAKE_INSTALL_DATADIR}/reprise" COMPONENT program)
if(TARGET reprise)
  install(TARGETS reprise RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT program)
  install(PROGRAMS "$<TARGET_FILE:reprise-lab>" DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT program OPTIONAL)
  # Written when it is installed: `cmake --install --prefix` may say where that is. What is installed below /usr has its
  # settings in /etc, everything else in etc below its prefix.
  install(CODE "
    set(CMAKE_INSTALL_FULL_BINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
    set(REPRISE_SYSCONFDIR \"\${CMAKE_INSTALL_PREFIX}/etc\")
    if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
      set(REPRISE_SYSCONFDIR /etc)
    endif()
    configure_file(\"${PROJECT_SOURCE_DIR}/tools/deploy/reprise.service.in\" \"${PROJECT_BINARY_DIR}/reprise.service\" @ONLY)
    if(NOT EXISTS \"\$ENV{DESTDIR}\${REPRISE_SYSCONFDIR}/reprise/reprise.toml\")
      file(INSTALL \"${PROJECT_SOURCE_DIR}/tools/deploy/reprise.toml\"
        DESTINATION \"\${REPRISE_SYSCONFDIR}/reprise\")  # file(INSTALL) puts DESTDIR in front by itself
    endif()" COMPONENT program)
  install(FILES "${PROJECT_BINARY_DIR}/reprise.service" DESTINATION lib/systemd/system COMPONENT program)
  set(pages_dir "${PROJECT_BINARY_DIR}/pages")
  install(FILES "${pages_dir}/reprise.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT program)
  install(FILES "${pages_dir}/reprise.bash" RENAME reprise
    DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT program)
  install(FILES "${pages_dir}/reprise.zsh" RENAME _reprise
    DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions" COMPONENT program)
  install(FILES "${pages_dir}/reprise.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" COMPONENT program)
  include(ReprisePackage)
endif()
