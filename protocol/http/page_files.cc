#include "protocol/http/page_files.h"

#include <cstdio>

#include "base/digest.h"

namespace reprise::protocol {
namespace {

// No inline script or style, nothing from elsewhere, in no other page's frame.
constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string tag_of(const PageFile& file) {
  char text[24];
  const int length =
      std::snprintf(text, sizeof text, "\"%016llx\"",
                    static_cast<unsigned long long>(digest_of(std::as_bytes(std::span(file.content)))));
  return std::string(text, static_cast<std::size_t>(length));
}

}  // namespace

HttpResponse page_file_answer(const PageFile& file, const HttpRequest& request) {
  const std::string tag = tag_of(file);
  HttpResponse response{.content_type = file.content_type};
  response.headers = {{"ETag", tag},
                      {"Cache-Control", "no-cache"},  // a browser asks each time, by the tag
                      {"Content-Security-Policy", std::string(kPagePolicy)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"X-Frame-Options", "DENY"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cross-Origin-Resource-Policy", "same-origin"}};
  if (request.header("if-none-match").find(tag) != std::string_view::npos) {
    response.status = 304;
    response.content_type = {};
  } else {
    response.body = std::string(file.content);
  }
  return response;
}

}  // namespace reprise::protocol
