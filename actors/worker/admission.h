#pragma once
// Admission: who gets a sequence, and when.
//
// A sequence is admitted when its price (slot, the pages of its prompt and of some reply, a snapshot behind the
// prompt where one will be taken; of a prompt that will be compacted all of it, what is kept beside it, and the queries that
// choose) is free beside what is promised to others. A price above the whole budget, or
// above its tenant's share of it, is refused at once; so is whoever comes when too many wait. Those that wait
// are admitted in the order of admission_order(). One that does not fit yet may be passed by those
// that do, kMostPasses times; one whose tenant holds its share waits for that tenant and holds up nobody.
// Sequences that were preempted come back before anybody new.
//
// The order (admission_order): the higher priority first; then whose tenant holds fewer sequences; then whose group (the
// prompts and choices of one client's request) holds fewer; then who came first. So somebody who asks for a thousand
// answers waits for them behind a stranger who asks for one. Nobody starves: every kLift of waiting counts as one priority
// more, and those who have reached the top that way go strictly in the order of their arrival.
//
// Threading: the device worker's thread; the order is a pure function.

#include <chrono>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "actors/worker/device_state.h"
#include "actors/worker/memory_search.h"
#include "protocol/priority.h"
#include "runtime/reply.h"

namespace reprise::actors {

inline constexpr std::chrono::seconds kLift{10};

struct Applicant {
  protocol::Priority priority = protocol::Priority::kNormal;
  std::uint32_t tenant_holds = 0;  // sequences
  std::uint32_t group_holds = 0;
  std::chrono::nanoseconds waited{};
  std::uint64_t arrival = 0;  // the smaller, the earlier
};

/// Indices of the applicants, the first to be admitted first. Idle ones only where nobody else applies.
std::vector<std::size_t> admission_order(std::span<const Applicant> applicants);

struct AdmissionLimits {
  std::uint32_t sequences = 256;            // of one model
  std::uint32_t waiting = 1024;             // of all
  std::uint32_t reply_tokens_priced = 256;  // of a reply, at most; what it needs beyond is found as it goes
};

class Admission {
 public:
  using Reply = runtime::ReplyTo<protocol::JobResult<protocol::Opened>>;
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::uint32_t kMostPasses = 16;

  /// `state`, `memory` and `figures` must outlive it.
  Admission(DeviceState& state, MemorySearch& memory, WorkerFigures& figures, const AdmissionLimits& limits);

  /// Answers at once where it will never be admitted; else with admit().
  void apply(protocol::OpenSequence job, Reply reply, Time now);
  /// Nobody waits for it any more.
  void withdraw(protocol::ArchId arch, std::uint64_t ticket);
  /// Of a model that goes.
  void refuse_all(std::uint32_t generation, const protocol::JobError& error);
  /// With an adapter that goes.
  void refuse_all(protocol::AdapterId adapter, const protocol::JobError& error);
  /// The one that has waited longest; nothing where nobody waits.
  void refuse_oldest(const protocol::JobError& error);

  void admit(Time now);
  std::size_t waiting() const { return waiting_.size(); }

 private:
  template <class Goes>
  void refuse_where(const Goes& goes, const protocol::JobError& error);

  struct Waiting {
    protocol::OpenSequence job;
    Reply reply;
    std::uint64_t arrival = 0;
    Time since{};
    std::uint32_t passed = 0;  // by others that were admitted while there was no room for it
    bool was_short = false;    // of memory, when its turn came
  };

  bool admit_next(Time now);
  bool admit_one(Waiting& waiting, Time now);
  void count_wait(const Waiting& waiting, Time now);
  std::vector<std::size_t> order_of_waiting(Time now) const;
  /// Of a sequence of so many tokens, the first `shared` of them in pages that others hold too.
  static std::uint64_t price_of(const StateTable& table, const protocol::OpenSequence& job,
                                std::uint64_t tokens, std::uint64_t shared);
  static bool shortens(const protocol::OpenSequence& job);
  /// Places of pages that it needs at once, with so many tokens of a reply.
  static std::uint64_t tokens_of(const protocol::OpenSequence& job, std::uint64_t reply);
  std::uint64_t tokens_priced(const protocol::OpenSequence& job) const;
  std::uint64_t admission_price(const StateTable& table, const protocol::OpenSequence& job) const;
  std::uint64_t share_of(const protocol::OpenSequence& job) const;
  bool within_share(const protocol::OpenSequence& job, std::uint64_t price) const;

  DeviceState& state_;
  MemorySearch& memory_;
  WorkerFigures& figures_;
  const AdmissionLimits limits_;
  std::deque<Waiting> waiting_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t admissions_ = 0;
};

}  // namespace reprise::actors
