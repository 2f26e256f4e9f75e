#include "protocol/http/pages.h"

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

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

HttpResponse front_page(const ServerContext& context) {
  std::string page = R"(<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Reprise</title></head>
<body style="max-width: 40rem; margin: 3rem auto; padding: 0 1rem; font: 1rem/1.5 sans-serif">
<h1>Reprise</h1>
<p>An inference server for hybrid language models in which no prefix is computed twice.</p>
<ul>
)";
  for (const ModelCard& card : context.service.models()) {
    page += "<li>" + escaped(card.id) + ": " + escaped(card.architecture) + ", " +
            std::string(name_of(card.state)) + "</li>\n";
  }
  page += R"(</ul>
<p>Any OpenAI client works with the base URL <code>/v1</code>. See <a href="/v1/models">models</a>,
<a href="/health">health</a> and <a href="/metrics">metrics</a>.</p>
</body>
</html>
)";
  return {.content_type = "text/html; charset=utf-8", .body = std::move(page)};
}

}  // namespace

HttpResponse page_answer(const Route& route, ServerContext& context) {
  switch (route.page) {
    case Page::kFrontPage:
      return front_page(context);
    case Page::kHealth:
      return health(context, route.dialect());
    case Page::kLive:
      return json_response("{\"status\":\"alive\"}");
    case Page::kMetrics:
      context.metrics.set_body_bytes(context.body_budget.held());
      return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
              .body = context.metrics.text(context.service.figures())};
    case Page::kNone:
      break;
  }
  REPRISE_CHECK(false, "a page that there is not");
}

}  // namespace reprise::protocol
