#pragma once
// Admission decides which waiting request gets a sequence next.
//
// The cost of a request is the memory of a state slot, the pages of its prompt and of at most
// `reply_tokens_reserved` reply tokens, and a snapshot after the prompt if one will be taken; for a prompt to
// be compacted, also the kept entries and the queries that choose them. A request is admitted when its cost
// is available beyond the reservations of others. It is refused at once if all of its tokens can never fit
// the budget or its tenant's share, or if too many requests wait.
//
// If the first request in order does not fit, later ones may pass it kMaxPasses times. One whose tenant has
// used up its share waits without blocking others. Preempted sequences return before any new one is admitted.
//
// admission_order() compares priority, then the sequences held by the tenant (fewest first), then those of
// the group (the prompts and choices of one client's request), then arrival. No request starves: every kLift
// of waiting raises its priority by one, and those at the top level are admitted strictly by arrival.
//
// Threading: Admission belongs to the device worker's thread.

#include <chrono>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "actors/device/device_state.h"
#include "actors/device/memory_reclaimer.h"
#include "protocol/priority.h"
#include "runtime/reply.h"

namespace reprise::actors {

inline constexpr std::chrono::seconds kLift{10};

struct Applicant {
  protocol::Priority priority = protocol::Priority::kNormal;
  std::uint32_t tenant_holds = 0;
  std::uint32_t group_holds = 0;
  std::chrono::nanoseconds waited{};
  std::uint64_t arrival = 0;  // smaller: earlier
};

/// Returns indices of the applicants in the order of admission. Idle work is included only if no other
/// applicant exists.
std::vector<std::size_t> admission_order(std::span<const Applicant> applicants);

struct AdmissionLimits {
  std::uint32_t sequences = 256;              // per model
  std::uint32_t waiting = 1024;               // across all models
  std::uint32_t reply_tokens_reserved = 256;  // reply tokens reserved at admission, at most
};

class Admission {
 public:
  using Reply = runtime::ReplyTo<protocol::JobResult<protocol::Opened>>;
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::uint32_t kMaxPasses = 16;

  /// `state`, `memory` and `figures` must outlive it.
  Admission(DeviceState& state, MemoryReclaimer& memory, WorkerFigures& figures,
            const AdmissionLimits& limits);

  /// Refuses the job if it can never be admitted; otherwise admit() will answer it.
  void apply(protocol::OpenSequence job, Reply reply, Time now);
  /// Removes a job.
  void withdraw(protocol::ArchId arch, std::uint64_t ticket);
  /// Refuses all jobs of a model.
  void refuse_all(std::uint32_t generation, const protocol::Error& error);
  /// Refuses all jobs that chose an adapter.
  void refuse_all(protocol::AdapterId adapter, const protocol::Error& error);
  /// Refuses the oldest job, if any.
  void refuse_oldest(const protocol::Error& error);

  void admit(Time now);
  std::size_t waiting() const { return waiting_.size(); }

 private:
  template <class Goes>
  void refuse_where(const Goes& goes, const protocol::Error& error);

  struct Waiting {
    protocol::OpenSequence job;
    Reply reply;
    std::uint64_t arrival = 0;
    Time since{};
    std::uint32_t passed = 0;  // number of later requests admitted before it
    bool was_short = false;
  };

  bool admit_next(Time now);
  bool admit_one(Waiting& waiting, Time now);
  void count_wait(const Waiting& waiting, Time now);
  std::vector<std::size_t> order_of_waiting(Time now) const;
  /// Returns the cost of a sequence of `tokens`, the first `shared` of them in shared pages.
  static std::uint64_t cost_of(const StateTable& table, const protocol::OpenSequence& job,
                               std::uint64_t tokens, std::uint64_t shared);
  static bool shortens(const protocol::OpenSequence& job);
  /// Returns the peak number of KV entries with `reply` tokens decoded.
  static std::uint64_t tokens_of(const protocol::OpenSequence& job, std::uint64_t reply);
  std::uint64_t tokens_reserved(const protocol::OpenSequence& job) const;
  std::uint64_t admission_cost(const StateTable& table, const protocol::OpenSequence& job) const;
  std::uint64_t share_of(const protocol::OpenSequence& job) const;
  bool within_share(const protocol::OpenSequence& job, std::uint64_t cost) const;

  DeviceState& state_;
  MemoryReclaimer& memory_;
  WorkerFigures& figures_;
  const AdmissionLimits limits_;
  std::deque<Waiting> waiting_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t admissions_ = 0;
};

}  // namespace reprise::actors
