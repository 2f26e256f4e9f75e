#include "protocol/http/bodies.h"

namespace reprise::protocol {

using runtime::ErrorCode;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::size_t kUsualBytes = 1u << 20;  // up to here a body waits for its likes alone

ApiError not_read(const runtime::Error& error) {
  return {.status = 503,
          .message = error.code == ErrorCode::kMailboxFull
                         ? "too many large request bodies are waiting to be parsed"
                         : "the body was not parsed: " + error.describe(),
          .code = "overloaded",
          .retry_after = std::chrono::seconds(1)};
}

/// One that waited and had to go, or would wait: its tenant has its share of the places; nobody has one for all.
ApiError too_many(const std::string& tenant) {
  return {.status = tenant.empty() ? 503 : 429,
          .message = tenant.empty()
                         ? "too many large request bodies are waiting to be parsed"
                         : "too many large request bodies of this API key are waiting to be parsed",
          .code = "overloaded",
          .retry_after = std::chrono::seconds(1)};
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
  } catch (const std::exception& failure) {  // out of memory, most likely: it costs this request alone
    return ApiError{.status = 500,
                    .message = std::string("the body could not be parsed: ") + failure.what(),
                    .code = "internal_error"};
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

// Where the mailbox is full, what is in it comes by here.
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
  if (parsed.error().code == ErrorCode::kCancelled) co_return std::nullopt;
  co_return not_read(parsed.error());
}

}  // namespace reprise::protocol
