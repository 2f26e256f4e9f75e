#include "protocol/http/pages.h"

#include "protocol/http/log.h"

namespace reprise::protocol {
namespace {

HttpResponse health(const ServerContext& context, const Dialect& dialect) {
  const Health health = context.service.health();
  if (health.ready && !context.draining) return json_response("{\"status\":\"ok\"}");
  return error_response({.status = 503,
                         .message = context.draining        ? "the server is shutting down"
                                    : health.detail.empty() ? "not ready"
                                                            : health.detail,
                         .code = "unavailable",
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
