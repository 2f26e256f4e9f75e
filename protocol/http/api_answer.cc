#include "protocol/http/api_answer.h"

#include <atomic>
#include <optional>
#include <utility>

#include "protocol/api/field_rules.h"
#include "protocol/api/query.h"
#include "protocol/http/generation.h"
#include "protocol/http/refusals.h"

namespace reprise::protocol {

using runtime::Task;

namespace {

/// One question about texts among its tenant's requests, for as long as it is answered; its time is paid at the end.
class TextEntry {
 public:
  TextEntry(TenantMeter& meter, const Tenant& tenant)
      : meter_(meter), tenant_(tenant), refused_(meter.enter(tenant, 1, runtime::Clock::now())) {}
  ~TextEntry() { leave(); }
  TextEntry(const TextEntry&) = delete;
  TextEntry& operator=(const TextEntry&) = delete;

  const std::optional<OverLimit>& refused() const { return refused_; }
  TextCaller caller() const { return {tenant_.name, time_}; }
  /// Comes before the answer is written: its client may ask again at once. Later calls do nothing.
  void leave() {
    if (refused_ || std::exchange(left_, true)) return;
    meter_.leave(tenant_, 1);
    meter_.pay(tenant_, tokens_of(time_), runtime::Clock::now());
  }

 private:
  TenantMeter& meter_;
  const Tenant& tenant_;
  const TextTime time_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  const std::optional<OverLimit> refused_;
  bool left_ = false;
};

Task<bool> answer_question(Exchange& exchange, const Tenant& tenant, std::unique_ptr<Question> question) {
  std::optional<TextEntry> entry;
  if (question->is_text_work()) {
    entry.emplace(exchange.context().meter, tenant);
    if (entry->refused()) {
      auto refusing = exchange.refuse(over_limit(*entry->refused(), tenant));
      const bool refused = co_await refusing;
      co_return refused;
    }
    question->caller = entry->caller();
  }
  auto answering = question->answer(exchange.context().service);
  Question::Answered answer = co_await answering;
  exchange.record().unknown_fields = question->unknown_fields;
  if (answer.ok()) append_unknown_fields(question->unknown_fields, *answer);
  if (entry) entry->leave();
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
    auto answering = answer_question(exchange, tenant, std::move(*question));
    goes_on = co_await answering;
  } else {
    Generation generation(exchange, tenant, std::get<std::unique_ptr<GenerationCall>>(std::move(*parsed)));
    auto running = generation.run();
    goes_on = co_await running;
  }
  co_return goes_on;
}

}  // namespace reprise::protocol
