#pragma once
// From the bodies of requests to what they ask for. A small body is read where it is; a large one by an actor
// with a thread of its own, so that no body keeps the server's loop from its other connections, nor a worker
// of the pool from the actors that live there.
//
// There are two such threads, one for bodies of ordinary size and one for the very large: a usual request
// never waits behind those that take long. Each takes one body at a time; tenants take turns (base/fair_queue.h). Those that
// wait are bounded in number, for one tenant and for all, and more are refused. A body whose client has left meanwhile is
// not read.
//
// Threading: BodyParsers belongs to the server's loop; parse() within a turn of an actor there.

#include <memory>
#include <optional>
#include <string>

#include "base/fair_queue.h"
#include "protocol/api/endpoint.h"
#include "runtime/actor.h"
#include "runtime/system.h"

namespace reprise::protocol {

struct ParseCall {
  using Reply = ParsedCall;
  std::shared_ptr<const Endpoint> endpoint;
  std::string body;
  std::string path_end{};  // as ApiInput has them
  std::string query{};
  std::string cache_salt{};
  std::string tenant{};
  bool deletes = false;
};

/// A pure function: what a body asks for at its endpoint, or why it is refused.
ParsedCall parse_call(const ParseCall& job, const BodyLimits& limits);

/// To itself: there may be a body to parse.
struct ParseNext {};

class BodyParser : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<ParseCall, ParseNext>;
  static constexpr const char* kName = "http body parser";
  static constexpr runtime::MailboxSpec kMailbox{.capacity = 256, .overload = runtime::Overload::kReject};

  explicit BodyParser(const BodyLimits& limits) : limits_(limits) {}

  void on(ParseCall job, runtime::ReplyTo<ParsedCall> reply);
  void on(ParseNext);

 private:
  struct Waiting {
    ParseCall job;
    runtime::ReplyTo<ParsedCall> reply;
  };
  /// Parses are turns of their own, so that bodies that came meanwhile are in the queue before the next is chosen.
  void go_on();

  const BodyLimits limits_;
  FairQueue<Waiting> queue_{{.all = 256, .of_one = 128, .running_of_one = 1}};
  bool posted_ = false;  // a ParseNext is under way
};

class BodyParsers {
 public:
  /// Bodies of more than `inline_bytes` are parsed elsewhere.
  BodyParsers(runtime::System& system, std::size_t inline_bytes, const BodyLimits& limits);
  ~BodyParsers();
  BodyParsers(const BodyParsers&) = delete;
  BodyParsers& operator=(const BodyParsers&) = delete;

  /// Nothing: `gone` was cancelled meanwhile.
  runtime::Task<std::optional<ParsedCall>> parse(ParseCall job, runtime::CancelToken gone);

 private:
  const std::size_t inline_bytes_;
  const BodyLimits limits_;
  const runtime::RefOf<BodyParser> usual_;
  const runtime::RefOf<BodyParser> large_;
};

}  // namespace reprise::protocol
