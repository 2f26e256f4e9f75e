#include "protocol/http/bodies.h"

namespace reprise::protocol {

using runtime::ErrorCode;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::size_t kUsualBytes = 1u << 20;  // larger bodies go to the second parser

Error not_read(const runtime::Error& error) {
  return {.kind = ErrorKind::kUnavailable,
          .message = error.code == ErrorCode::kMailboxFull
                         ? "too many large request bodies are waiting to be parsed"
                         : "the body was not parsed: " + error.describe(),
          .retry_after = std::chrono::seconds(1),
          .code = "overloaded"};
}

/// The error for a body that the full queue drops or refuses: 429 if its tenant exceeds its share, 503
/// without keys.
Error too_many(const std::string& tenant) {
  return {.kind = tenant.empty() ? ErrorKind::kUnavailable : ErrorKind::kOverloaded,
          .message = tenant.empty()
                         ? "too many large request bodies are waiting to be parsed"
                         : "too many large request bodies of this API key are waiting to be parsed",
          .retry_after = std::chrono::seconds(1),
          .code = "overloaded"};
}

runtime::RefOf<BodyParser> spawn_parser(runtime::System& system, const BodyLimits& limits) {
  return system.spawn<BodyParser>({.placement = runtime::Placement::own_thread()}, limits);
}

}  // namespace

ParsedCall parse_call(const ParseCall& job, const BodyLimits& limits) {
  try {
    return job.endpoint->parse({.body = job.body,
                                .path_end = job.path_end,
                                .query = job.query,
                                .cache_salt = job.cache_salt,
                                .tenant = job.tenant,
                                .deletes = job.deletes},
                               limits);
  } catch (const BadRequest& refused) {
    return refused.error();
  } catch (const std::exception& failure) {  // usually out of memory; costs only this request
    return Error{ErrorKind::kInternal, std::string("the body could not be parsed: ") + failure.what()};
  }
}

void BodyParser::on(ParseCall job, runtime::ReplyTo<ParsedCall> reply) {
  const std::string tenant = job.tenant;
  if (auto refused = queue_.push(tenant, {std::move(job), std::move(reply)})) {
    refused->reply.answer(ParsedCall(too_many(refused->job.tenant)));
  }
  go_on();
}

void BodyParser::on(ParseNext) {
  posted_ = false;
  if (auto next = queue_.take()) {
    queue_.ended(next->owner);
    if (next->item.reply.wanted()) next->item.reply.answer(parse_call(next->item.job, limits_));
  }
  go_on();
}

// If the mailbox is full, on(ParseCall) for the messages in it calls this again.
void BodyParser::go_on() {
  if (posted_ || queue_.waiting() == 0) return;
  posted_ = runtime::self(*this).tell(ParseNext{}) == runtime::SendStatus::kSent;
}

BodyParsers::BodyParsers(runtime::System& system, std::size_t inline_bytes, const BodyLimits& limits)
    : inline_bytes_(inline_bytes),
      limits_(limits),
      usual_(spawn_parser(system, limits)),
      large_(spawn_parser(system, limits)) {}

BodyParsers::~BodyParsers() {
  usual_.stop();
  large_.stop();
}

Task<std::optional<ParsedCall>> BodyParsers::parse(ParseCall job, runtime::CancelToken gone) {
  const std::size_t bytes = job.body.size();
  if (bytes <= inline_bytes_) co_return parse_call(job, limits_);
  const runtime::RefOf<BodyParser>& parser = bytes <= kUsualBytes ? usual_ : large_;
  auto asking = parser.ask(std::move(job), runtime::TimePoint::max(), gone);
  Result<ParsedCall> parsed = co_await asking;
  if (parsed.ok()) co_return std::move(*parsed);
  if (parsed.error().code == ErrorCode::kCanceled) co_return std::nullopt;
  co_return not_read(parsed.error());
}

}  // namespace reprise::protocol
