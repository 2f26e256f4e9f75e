# The port builds the tree that it lies in: docs/embedding.md. vcpkg knows a package by its port's files and not by that
# tree, so what has changed there is built again with `vcpkg install --no-binarycaching` after `vcpkg remove reprise`.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

vcpkg_check_linkage(ONLY_STATIC_LIBRARY)
vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES
  cuda REPRISE_CUDA
  program REPRISE_PROGRAM)

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${features} -DREPRISE_TESTS=OFF -DREPRISE_TRACY=OFF -DCMAKE_UNITY_BUILD=ON -DCMAKE_COMPILE_WARNING_AS_ERROR=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/reprise)

if("program" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES reprise AUTO_CLEAN)
  # A service, its settings and the shells' completions belong to an installation below /usr or /usr/local.
  foreach(prefix IN ITEMS "${CURRENT_PACKAGES_DIR}" "${CURRENT_PACKAGES_DIR}/debug")
    file(REMOVE_RECURSE "${prefix}/etc" "${prefix}/lib/systemd" "${prefix}/share/bash-completion" "${prefix}/share/fish"
      "${prefix}/share/zsh")
  endforeach()
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")

file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/reprise")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
