#pragma once
// The server's own pages. Health, life and metrics are read from published figures: they never wait for the engine.
//
// The files of the web page (protocol/page) are as they were when the program was built. They are given out with a tag by
// which a browser finds out whether it has them already, and under a policy that lets the page load nothing from elsewhere
// and run no script but its own files.
//
// Threading: page_answer() is the server's loop's; the rest are constants and pure functions.

#include <span>
#include <string_view>

#include "protocol/http/message.h"

namespace reprise::protocol {

struct Route;
struct ServerContext;

struct PageFile {
  std::string_view path;  // "/", "/page/main.js"
  std::string_view content_type;
  std::string_view content;
};

std::span<const PageFile> page_files();

/// Or that the browser's own copy is still right (304).
HttpResponse page_file_answer(const PageFile& file, const HttpRequest& request);

/// Requires a route to a page.
HttpResponse page_answer(const Route& route, const HttpRequest& request, ServerContext& context);

}  // namespace reprise::protocol
