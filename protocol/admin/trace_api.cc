#include "protocol/admin/trace_api.h"

#include "base/json_text.h"
#include "protocol/openai/openai_api.h"

namespace reprise::protocol::admin {
namespace {

using traces::SessionControl;

enum class Action { kTell, kStart, kStop };

std::string body_of(const SessionControl::State& state) {
  std::string out = state.records ? "{\"recording\":true,\"file\":" : "{\"recording\":false,\"file\":";
  if (state.file.empty()) {
    out += "null";
  } else {
    append_json_string(out, state.file);
  }
  return out + '}';
}

class TraceQuestion final : public Question {
 public:
  TraceQuestion(SessionControl& sessions, Action action) : sessions_(sessions), action_(action) {}

  runtime::Task<Answered> answer(Service&) override {
    if (action_ == Action::kTell) co_return body_of(sessions_.state());
    const SessionControl::Changed changed = action_ == Action::kStart ? sessions_.start() : sessions_.stop();
    if (!changed.ok()) co_return ApiError{.status = 409, .message = changed.error(), .code = "conflict"};
    co_return body_of(*changed);
  }

 private:
  SessionControl& sessions_;
  const Action action_;
};

class TraceEndpoint final : public Endpoint {
 public:
  TraceEndpoint(SessionControl& sessions, Action action) : sessions_(sessions), action_(action) {}
  const Dialect& dialect() const override { return *dialect_; }
  ParsedCall parse(const ApiInput&, const BodyLimits&) const override {
    return std::make_unique<TraceQuestion>(sessions_, action_);
  }

 private:
  SessionControl& sessions_;
  const Action action_;
  const std::shared_ptr<const Dialect> dialect_ = openai::dialect();
};

}  // namespace

std::vector<ApiRoute> trace_routes(SessionControl& sessions) {
  const auto route = [&](HttpMethod method, const char* path, Action action) {
    return ApiRoute{.method = method,
                    .path = path,
                    .endpoint = std::make_shared<TraceEndpoint>(sessions, action),
                    .for_operators = true};
  };
  return {route(HttpMethod::kGet, "/admin/trace", Action::kTell),
          route(HttpMethod::kPost, "/admin/trace/start", Action::kStart),
          route(HttpMethod::kPost, "/admin/trace/stop", Action::kStop)};
}

}  // namespace reprise::protocol::admin
