#include "protocol/http/body_parser.h"

#include "protocol/openai/token_requests.h"

namespace reprise::protocol {

using runtime::ErrorCode;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::size_t kUsualBytes = 1u << 20;  // up to here a body waits for its likes alone

ApiError not_read(const runtime::Error& error) {
  return {.status = 503,
          .message = error.code == ErrorCode::kMailboxFull ? "too many large bodies wait to be read"
                                                           : "the body was not read: " + error.describe(),
          .code = "overloaded",
          .retry_after = std::chrono::seconds(1)};
}

runtime::RefOf<BodyParser> spawn_parser(runtime::System& system, const RequestLimits& limits) {
  return system.spawn<BodyParser>({.placement = runtime::Placement::own_thread()}, limits);
}

}  // namespace

ParsedBody parse_body_of(Route route, std::string_view body, const RequestLimits& limits) {
  try {
    switch (route) {
      case Route::kTokenize:
        return read_tokenize(body, limits);
      case Route::kDetokenize:
        return read_detokenize(body, limits);
      case Route::kApplyTemplate:
        return read_apply_template(body, limits);
      default: {
        REPRISE_CHECK(route == Route::kChat || route == Route::kCompletion, "a body on a path without one");
        const ApiKind kind = route == Route::kChat ? ApiKind::kChat : ApiKind::kCompletion;
        Outcome<ApiRequest, ApiError> parsed = parse_api_request(kind, body, limits);
        if (!parsed) return parsed.error();
        return std::move(*parsed);
      }
    }
  } catch (const BadRequest& refused) {
    return refused.error();
  } catch (const std::exception& failure) {  // out of memory, most likely: it costs this request alone
    return ApiError{.status = 500,
                    .message = std::string("the body could not be read: ") + failure.what(),
                    .code = "internal_error"};
  }
}

void BodyParser::on(ParseBody job, runtime::ReplyTo<ParsedBody> reply) {
  if (reply.wanted()) reply.answer(parse_body_of(job.route, job.body, limits_));
}

BodyParsers::BodyParsers(runtime::System& system, std::size_t inline_bytes, const RequestLimits& limits)
    : inline_bytes_(inline_bytes),
      limits_(limits),
      usual_(spawn_parser(system, limits)),
      large_(spawn_parser(system, limits)) {}

BodyParsers::~BodyParsers() {
  usual_.stop();
  large_.stop();
}

Task<std::optional<ParsedBody>> BodyParsers::parse(Route route, std::string body, runtime::CancelToken gone) {
  if (body.size() <= inline_bytes_) co_return parse_body_of(route, body, limits_);
  const runtime::RefOf<BodyParser>& parser = body.size() <= kUsualBytes ? usual_ : large_;
  auto asking = parser.ask(ParseBody{route, std::move(body)}, runtime::TimePoint::max(), gone);
  Result<ParsedBody> parsed = co_await asking;
  if (parsed.ok()) co_return std::move(*parsed);
  if (parsed.error().code == ErrorCode::kCancelled) co_return std::nullopt;
  co_return not_read(parsed.error());
}

}  // namespace reprise::protocol
