# Writes files into a C++ source, for protocol/http/pages.h:  cmake -DOUT=FILE.cc -DFILES="A;B" -P EmbedFiles.cmake
# The path of a file is its name below /page/; that of index.html is /. NAME=FILE gives another name, and NAME= an empty file.
set(arrays "")
set(rows "")
set(number 0)
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  if(file MATCHES "^([^=]+)=(.*)$")
    set(name "${CMAKE_MATCH_1}")
    set(file "${CMAKE_MATCH_2}")
  endif()
  get_filename_component(ending "${name}" LAST_EXT)
  if(ending STREQUAL ".html")
    set(type "text/html; charset=utf-8")
  elseif(ending STREQUAL ".css")
    set(type "text/css; charset=utf-8")
  elseif(ending STREQUAL ".js")
    set(type "text/javascript; charset=utf-8")
  elseif(ending STREQUAL ".svg")
    set(type "image/svg+xml")
  else()
    message(FATAL_ERROR "${file}: no content type is known for '${ending}'")
  endif()
  set(path "/page/${name}")
  if(name STREQUAL "index.html")
    set(path "/")
  endif()
  set(bytes "")
  if(NOT file STREQUAL "")
    file(READ "${file}" bytes HEX)
  endif()
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
  string(APPEND arrays "constexpr char kFile${number}[] = \"${bytes}\";\n")
  string(APPEND rows "    {\"${path}\", \"${type}\", {kFile${number}, sizeof kFile${number} - 1}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE "${OUT}" "// Written by cmake/EmbedFiles.cmake.
#include \"protocol/http/pages.h\"

namespace reprise::protocol {
namespace {
${arrays}
constexpr PageFile kPageFiles[] = {
${rows}};
}  // namespace

std::span<const PageFile> page_files() { return kPageFiles; }

}  // namespace reprise::protocol
")
