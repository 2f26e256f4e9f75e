#include "protocol/http/api_answer.h"

#include "protocol/api/field_rules.h"
#include "protocol/api/query.h"
#include "protocol/http/generation.h"
#include "protocol/http/refusals.h"

namespace reprise::protocol {

using runtime::Task;

namespace {

Task<bool> answer_question(Exchange& exchange, std::unique_ptr<Question> question) {
  auto answering = question->answer(exchange.context().service);
  Question::Answered answer = co_await answering;
  exchange.record().unknown_fields = question->unknown_fields;
  if (answer.ok()) append_unknown_fields(question->unknown_fields, *answer);
  auto responding =
      answer.ok() ? exchange.respond(json_response(std::move(*answer))) : exchange.refuse(answer.error());
  const bool sent = co_await responding;
  co_return sent;
}

/// Of a request that cannot say it in its body: ?cache_salt=, or the header X-Cache-Salt.
std::string salt_beside_body(const HttpRequest& request) {
  if (auto salt = query_value(request.query, "cache_salt")) return std::move(*salt);
  return std::string(request.header("x-cache-salt"));
}

}  // namespace

Task<bool> answer_call(Exchange& exchange, const Tenant& tenant) {
  ServerContext& context = exchange.context();
  const Route& route = exchange.route();
  std::optional<ParsedCall> parsed;
  if (route.generates && context.generations >= context.options.requests) {
    parsed = too_many_requests(context.options.requests);
  } else {
    auto parsing = context.bodies.parse({.endpoint = route.endpoint,
                                         .body = std::move(exchange.request().body),
                                         .path_end = route.path_end(exchange.request().path),
                                         .query = exchange.request().query,
                                         .cache_salt = salt_beside_body(exchange.request()),
                                         .tenant = tenant.name,
                                         .deletes = exchange.request().method == "DELETE"},
                                        exchange.wire().gone());
    parsed = co_await parsing;
  }
  bool goes_on = false;
  if (!parsed) {
    auto giving_up = exchange.give_up();
    goes_on = co_await giving_up;
    co_return goes_on;
  }
  exchange.trace().mark("parsed");
  exchange.drop_body();
  if (auto* error = std::get_if<ApiError>(&*parsed)) {
    auto refusing = exchange.refuse(std::move(*error));
    goes_on = co_await refusing;
  } else if (auto* question = std::get_if<std::unique_ptr<Question>>(&*parsed)) {
    auto answering = answer_question(exchange, std::move(*question));
    goes_on = co_await answering;
  } else {
    Generation generation(exchange, tenant, std::get<std::unique_ptr<GenerationCall>>(std::move(*parsed)));
    auto running = generation.run();
    goes_on = co_await running;
  }
  co_return goes_on;
}

}  // namespace reprise::protocol
