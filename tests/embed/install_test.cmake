# Installs the build tree to another folder and moves it to install_dir/prefix for the other scripts, to test that the
# package is relocatable.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/installed_package.cmake")

file(REMOVE_RECURSE "${install_dir}/first" "${install_dir}/prefix")
run("${CMAKE_COMMAND}" --install "${build_dir}" --prefix "${install_dir}/first" --config "${config}")
file(RENAME "${install_dir}/first" "${install_dir}/prefix")
