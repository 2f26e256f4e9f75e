#pragma once
// The files of the web page (protocol/page), as they were when the program was built, and how they are given out:
// with a tag by which a browser finds out whether it has them already, and under a policy that lets the page load
// nothing from elsewhere and run no script but its own files.
//
// Threading: constants and pure functions.

#include <span>
#include <string_view>

#include "protocol/http/message.h"

namespace reprise::protocol {

struct PageFile {
  std::string_view path;  // "/", "/page/main.js"
  std::string_view content_type;
  std::string_view content;
};

std::span<const PageFile> page_files();

/// Or that the browser's own copy is still right (304).
HttpResponse page_file_answer(const PageFile& file, const HttpRequest& request);

}  // namespace reprise::protocol
