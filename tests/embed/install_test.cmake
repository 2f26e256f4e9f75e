# Installs the build tree in install_dir/prefix for the other scripts, by way of another folder: a package that works only
# where it was installed would fail.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/installed_package.cmake")

file(REMOVE_RECURSE "${install_dir}/first" "${install_dir}/prefix")
run("${CMAKE_COMMAND}" --install "${build_dir}" --prefix "${install_dir}/first" --config "${config}")
file(RENAME "${install_dir}/first" "${install_dir}/prefix")
