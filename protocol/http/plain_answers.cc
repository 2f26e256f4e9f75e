#include "protocol/http/plain_answers.h"

namespace reprise::protocol {
namespace {

std::string_view name_of(ModelCard::State state) {
  switch (state) {
    case ModelCard::State::kLoading:
      return "loading";
    case ModelCard::State::kReady:
      return "ready";
    case ModelCard::State::kFailed:
      return "failed";
  }
  return "?";
}

Json describe(const ModelCard& card) {
  return Json{{"id", card.id},
              {"object", "model"},
              {"created", card.created},
              {"owned_by", "reprise"},
              {"architecture", card.architecture},
              {"max_model_len", card.context},
              {"vocab_size", card.vocab},
              {"takes_text", card.takes_text},
              {"takes_chat", card.takes_text && !card.chat_template.empty()},
              {"state", name_of(card.state)}};
}

HttpResponse models(const ServerContext& context) {
  Json data = Json::array();
  for (const ModelCard& card : context.service.models()) data.push_back(describe(card));
  return json_response(Json{{"object", "list"}, {"data", std::move(data)}}.dump());
}

HttpResponse model(const std::string& id, const ServerContext& context) {
  for (const ModelCard& card : context.service.models()) {
    if (card.id == id) return json_response(describe(card).dump());
  }
  return error_response({.status = 404,
                         .message = "there is no model '" + id + "'",
                         .code = "model_not_found",
                         .param = "model"});
}

HttpResponse health(const ServerContext& context) {
  const Health health = context.service.health();
  if (health.ready && !context.draining) return json_response("{\"status\":\"ok\"}");
  return error_response({.status = 503,
                         .message = context.draining        ? "the server is shutting down"
                                    : health.detail.empty() ? "not ready"
                                                            : health.detail,
                         .code = "unavailable",
                         .retry_after = std::chrono::seconds(1)});
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

HttpResponse plain_answer(Route route, const HttpRequest& request, ServerContext& context) {
  switch (route) {
    case Route::kFrontPage:
      return front_page(context);
    case Route::kHealth:
      return health(context);
    case Route::kLive:
      return json_response("{\"status\":\"alive\"}");
    case Route::kMetrics:
      context.metrics.set_body_bytes(context.body_budget.held());
      return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
              .body = context.metrics.text(context.service.figures())};
    case Route::kModels:
      return models(context);
    case Route::kModel:
      return model(model_of_path(request.path), context);
    default:
      break;
  }
  return error_response({.status = 404, .message = "there is nothing at this path", .code = "not_found"});
}

}  // namespace reprise::protocol
