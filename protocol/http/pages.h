#pragma once
// The server's own pages: health, liveness, metrics and the files of the web page (protocol/page). Health and
// metrics are read from published figures and never wait for the engine.
//
// The files of the web page are embedded at build time and served with an ETag and a content security policy
// that allows only the page's own scripts and no external resources.
//
// Threading: page_answer() runs on the server's loop.

#include <span>
#include <string_view>

#include "protocol/http/message.h"

namespace reprise::protocol {

struct Route;
struct ServerContext;

struct PageFile {
  std::string_view path;
  std::string_view content_type;
  std::string_view content;
};

std::span<const PageFile> page_files();

/// Returns the file, or 304 if the request's ETag matches it.
HttpResponse page_file_answer(const PageFile& file, const HttpRequest& request);

/// Requires: `route.page` is not kNone.
HttpResponse page_answer(const Route& route, const HttpRequest& request, ServerContext& context);

}  // namespace reprise::protocol
