#include "protocol/http/pages.h"

#include <cstdio>

#include "base/digest.h"
#include "protocol/http/log.h"
#include "protocol/http/metrics.h"
#include "protocol/http/routes.h"
#include "protocol/http/server_context.h"

namespace reprise::protocol {
namespace {

// Forbids inline scripts and styles, external resources and framing by other pages.
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

HttpResponse health(const ServerContext& context, const Dialect& dialect) {
  const Health health = context.service.health();
  if (health.ready && !context.draining) return json_response("{\"status\":\"ok\"}");
  return error_response({.kind = ErrorKind::kUnavailable,
                         .message = context.draining        ? "the server is shutting down"
                                    : health.detail.empty() ? "not ready"
                                                            : health.detail,
                         .retry_after = std::chrono::seconds(1)},
                        dialect);
}

HttpResponse metrics(ServerContext& context) {
  context.metrics.set_body_bytes(context.body_budget.held());
  std::vector<Figure> figures = context.service.figures();
  figures.push_back({.kind = Figure::Kind::kCounter,
                     .name = "reprise_log_lines_dropped_total",
                     .help = "Log lines that were dropped because they could not be written in time",
                     .value = static_cast<double>(dropped_log_lines())});
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = context.metrics.text(figures)};
}

}  // namespace

HttpResponse page_file_answer(const PageFile& file, const HttpRequest& request) {
  const std::string tag = tag_of(file);
  HttpResponse response{.content_type = file.content_type};
  response.headers = {{"ETag", tag},
                      {"Cache-Control", "no-cache"},  // revalidate each time, by ETag
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

HttpResponse page_answer(const Route& route, const HttpRequest& request, ServerContext& context) {
  switch (route.page) {
    case Page::kFile:
      return page_file_answer(*route.file, request);
    case Page::kHealth:
      return health(context, route.dialect());
    case Page::kLive:
      return json_response("{\"status\":\"alive\"}");
    case Page::kMetrics:
      return metrics(context);
    case Page::kNone:
      break;
  }
  REPRISE_CHECK(false, "the route has no page");
}

}  // namespace reprise::protocol
