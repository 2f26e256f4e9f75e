# `cpack -G DEB` in the build folder makes reprise_VERSION_ARCH.deb: the program, its manual and completions, the built-in
# model, the systemd unit and /etc/reprise/reprise.toml. tools/check_deb makes one and tries it in a clean root.
#
# Its dependencies are those that dpkg-shlibdeps finds. CUDA's libraries are in no package of Debian's: a build with CUDA
# makes no such package.

set(CPACK_PACKAGE_NAME reprise)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_CONTACT "Reprise <reprise@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME reprise)
set(CPACK_DEBIAN_PROGRAM_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${PROJECT_SOURCE_DIR}/tools/deploy/debian/conffiles"
  "${PROJECT_SOURCE_DIR}/tools/deploy/debian/postinst" "${PROJECT_SOURCE_DIR}/tools/deploy/debian/prerm"
  "${PROJECT_SOURCE_DIR}/tools/deploy/debian/postrm")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA "${CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA}")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
