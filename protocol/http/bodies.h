#pragma once
// The bodies of requests: how many bytes of them a server holds, and their way to what they ask for.
//
// A small body is read where it is; a large one by an actor with a thread of its own, so that no body keeps the server's
// loop from its other connections, nor a worker of the pool from the actors that live there.
//
// There are two such threads, one for bodies of ordinary size and one for the very large: a usual request
// never waits behind those that take long. Each takes one body at a time; tenants take turns (base/fair_queue.h). Those that
// wait are bounded in number, for one tenant and for all, and more are refused. A body whose client has left meanwhile is
// not read.
//
// Threading: BodyParsers belongs to the server's loop; parse() within a turn of an actor there.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/fair_queue.h"
#include "protocol/api/endpoint.h"
#include "runtime/actor.h"
#include "runtime/system.h"

namespace reprise::protocol {

/// The bytes of request bodies that a server holds, all connections together: those that came and have not
/// been parsed yet. A length that a client only declares takes none, so nobody can reserve what he does not
/// send. Must outlive its leases. The server's loop alone.
///
///   BodyLease lease(budget);
///   if (!lease.grow_to(bytes_so_far)) ...refuse, and keep no more
///   lease.release();                                  or its end
class BodyBudget {
 public:
  explicit BodyBudget(std::size_t bytes) : bytes_(bytes) {}
  BodyBudget(const BodyBudget&) = delete;
  BodyBudget& operator=(const BodyBudget&) = delete;

  bool has_room(std::size_t bytes) const { return bytes <= bytes_ - held_; }
  std::size_t held() const { return held_; }

 private:
  friend class BodyLease;

  const std::size_t bytes_;
  std::size_t held_ = 0;  // at most bytes_
};

class BodyLease {
 public:
  explicit BodyLease(BodyBudget& budget) : budget_(&budget) {}
  ~BodyLease() { release(); }
  BodyLease(BodyLease&& other) noexcept : budget_(other.budget_), held_(std::exchange(other.held_, 0)) {}
  BodyLease& operator=(BodyLease&&) = delete;

  /// False: there is no room, and nothing has changed.
  bool grow_to(std::size_t bytes) {
    if (bytes <= held_) return true;
    if (!budget_->has_room(bytes - held_)) return false;
    budget_->held_ += bytes - held_;
    held_ = bytes;
    return true;
  }
  void release() { budget_->held_ -= std::exchange(held_, 0); }

 private:
  BodyBudget* budget_;
  std::size_t held_ = 0;
};

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
