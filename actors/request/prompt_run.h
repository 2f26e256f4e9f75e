#pragma once
// PromptRun: from a client's prompt to a sequence that holds it (the phases prepare to prefill of
// actors/request/request_actor.h), and until the registry has what was kept of it. The same for idle work.
//
// ProgressPace decides which progress events of a prompt are sent to its client: only those with more tokens than the last
// one, and at most ten a second.
//
// Threading: the request actor's. Its tasks may not outlive it.

#include <chrono>
#include <cstdint>

#include "actors/request/request_context.h"
#include "runtime/event.h"
#include "runtime/ticks.h"

namespace reprise::actors {

class ProgressPace {
 public:
  static constexpr std::chrono::milliseconds kBetween{100};

  /// `told`: tokens that the client knows of.
  explicit ProgressPace(std::uint32_t told) : told_(told) {}

  /// True: it is to be told, and counts as told.
  bool allows(std::uint32_t processed, runtime::TimePoint now) {
    if (processed <= told_ || now < next_) return false;
    told_ = processed;
    next_ = now + kBetween;
    return true;
  }

 private:
  std::uint32_t told_;
  runtime::TimePoint next_ = runtime::TimePoint::min();
};

class PromptRun {
 public:
  using Failure = RequestFailure;
  using Restoring = protocol::JobResult<protocol::Restored>;

  /// `request` must outlive it.
  explicit PromptRun(RequestContext& request) : request_(request) {}

  runtime::Task<Failure> prepare();
  /// What its prompt is compacted to, nothing where that is not wanted, or the prompt is no longer.
  Failure settle_budget(Computation& computation) const;

  /// Announces it, where it writes to the cache, and opens its sequence.
  runtime::Task<Failure> enter(Computation& computation, protocol::Priority priority);
  runtime::Task<Failure> restore(Computation& computation);
  runtime::Task<Failure> prefill(Computation& computation, bool want_digest);
  bool prefilling() const { return prefilling_; }        // the prompt, with checkpoints
  bool told_sampling() const { return told_sampling_; }  // the prefill, which may draw the first token

  protocol::Progress progress_at(std::uint32_t processed) const;
  void stop_telling() { tells_slices_ = false; }

  protocol::CheckpointPlan plan_of(const Computation& computation) const;
  /// Until the registry has adopted so many checkpoints of the flight, or will not.
  runtime::Task<void> settle(protocol::FlightNumber flight, std::uint32_t reported);
  runtime::Task<void> all_settled();
  runtime::Task<void> pin_prompt();

 private:
  /// Turns of the chat that only a store outside of the process may know.
  runtime::Task<void> fetch_turns();
  runtime::Task<Failure> announce(Computation& computation);
  runtime::Task<Failure> open(Computation& computation, protocol::Priority priority);
  /// What a lookup has found. The report has its tokens, or why it has not.
  runtime::Task<Failure> restore_found(Computation& computation, protocol::LookedUp::Restore from);
  /// What a tier below has brought. The report has its tokens, or why it has not.
  runtime::Task<Failure> load(Computation& computation, const protocol::LookedUp& found);
  /// Tells the client of slices of the prompt that were computed, while that prefill lasts.
  runtime::Task<void> tell_slices(runtime::StreamReader<std::uint32_t> slices);
  runtime::Task<void> settle_counted(protocol::FlightNumber flight, std::uint32_t reported);

  RequestContext& request_;
  bool prefilling_ = false;
  bool tells_slices_ = false;
  bool told_sampling_ = false;
  std::uint32_t settling_ = 0;  // waits for checkpoints to be adopted
  runtime::Event settled_;
};

}  // namespace reprise::actors
