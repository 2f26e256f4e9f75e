#pragma once
// Memory accounting and parsing of request bodies.
//
// A small body is parsed on the server's loop. A larger one is parsed by an actor with a thread of its own,
// so that it delays neither other connections nor the actors of the worker pool. There are two such actors,
// one for bodies up to 1 MiB and one for larger ones, so that ordinary requests never queue behind very large
// ones. Each parses one body at a time, taking tenants in turn (base/fair_queue.h). Its queue is bounded, in
// total and per tenant; further bodies are refused. A body whose client has disconnected is skipped.
//
// Threading: BodyParsers belongs to the server's loop; call parse() within a turn of an actor there.

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

/// The bytes of received but unparsed request bodies, all connections together. A declared Content-Length
/// reserves nothing, so a client is charged only for bytes it has sent. Must outlive its leases. The server's
/// loop only.
///
///   BodyLease lease(budget);
///   if (!lease.grow_to(bytes_so_far)) ...  // refuse, and buffer no more
///   lease.release();                       // or the destructor
class BodyBudget {
 public:
  explicit BodyBudget(std::size_t bytes) : bytes_(bytes) {}
  BodyBudget(const BodyBudget&) = delete;
  BodyBudget& operator=(const BodyBudget&) = delete;

  bool has_capacity(std::size_t bytes) const { return bytes <= bytes_ - held_; }
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

  /// Returns false, without effect, if the budget is exhausted.
  bool grow_to(std::size_t bytes) {
    if (bytes <= held_) return true;
    if (!budget_->has_capacity(bytes - held_)) return false;
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
  std::string path_end{};  // this and the following as in ApiInput
  std::string query{};
  std::string cache_salt{};
  std::string tenant{};
  bool deletes = false;
};

/// Parses the body for its endpoint; returns the call or the error.
ParsedCall parse_call(const ParseCall& job, const BodyLimits& limits);

/// The message by which a parser tells itself to parse the next body.
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
  /// Each parse is a turn of its own, so that bodies that arrived meanwhile are queued before the next is
  /// chosen.
  void go_on();

  const BodyLimits limits_;
  FairQueue<Waiting> queue_{{.all = 256, .of_one = 128, .running_of_one = 1}};
  bool posted_ = false;  // a ParseNext is on its way
};

class BodyParsers {
 public:
  /// Bodies above `inline_bytes` are parsed by the actors.
  BodyParsers(runtime::System& system, std::size_t inline_bytes, const BodyLimits& limits);
  ~BodyParsers();
  BodyParsers(const BodyParsers&) = delete;
  BodyParsers& operator=(const BodyParsers&) = delete;

  /// Returns nullopt if `gone` was canceled.
  runtime::Task<std::optional<ParsedCall>> parse(ParseCall job, runtime::CancelToken gone);

 private:
  const std::size_t inline_bytes_;
  const BodyLimits limits_;
  const runtime::RefOf<BodyParser> usual_;
  const runtime::RefOf<BodyParser> large_;
};

}  // namespace reprise::protocol
