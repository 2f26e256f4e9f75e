#pragma once
// From the bodies of requests to what they ask for. A small body is read where it is; a large one by an actor
// with a thread of its own, so that no body keeps the server's loop from its other connections, nor a worker
// of the pool from the actors that live there.
//
// There are two such threads, one for bodies of ordinary size and one for the very large: a usual request
// never waits behind those that take long. Each takes one body at a time, in the order they came; those that
// wait are bounded in number, and more are refused. A body whose client has left meanwhile is not read.
//
// Threading: BodyParsers belongs to the server's loop; parse() within a turn of an actor there.

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "protocol/http/routes.h"
#include "protocol/openai/api_error.h"
#include "protocol/openai/request.h"
#include "protocol/service.h"
#include "runtime/actor.h"
#include "runtime/system.h"

namespace reprise::protocol {

/// What a body asks for, by its route; or why it is refused.
using ParsedBody = std::variant<ApiError, ApiRequest, TokenizeRequest, DetokenizeRequest, RenderRequest>;

/// A pure function. The route must be one that takes a body.
ParsedBody parse_body_of(Route route, std::string_view body, const RequestLimits& limits);

struct ParseBody {
  using Reply = ParsedBody;
  Route route;
  std::string body;
};

class BodyParser : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<ParseBody>;
  static constexpr const char* kName = "http body parser";
  static constexpr runtime::MailboxSpec kMailbox{.capacity = 256, .overload = runtime::Overload::kReject};

  explicit BodyParser(const RequestLimits& limits) : limits_(limits) {}

  void on(ParseBody job, runtime::ReplyTo<ParsedBody> reply);

 private:
  const RequestLimits limits_;
};

class BodyParsers {
 public:
  /// Bodies of more than `inline_bytes` are parsed elsewhere.
  BodyParsers(runtime::System& system, std::size_t inline_bytes, const RequestLimits& limits);
  ~BodyParsers();
  BodyParsers(const BodyParsers&) = delete;
  BodyParsers& operator=(const BodyParsers&) = delete;

  /// Nothing: `gone` was cancelled meanwhile.
  runtime::Task<std::optional<ParsedBody>> parse(Route route, std::string body, runtime::CancelToken gone);

 private:
  const std::size_t inline_bytes_;
  const RequestLimits limits_;
  const runtime::RefOf<BodyParser> usual_;
  const runtime::RefOf<BodyParser> large_;
};

}  // namespace reprise::protocol
