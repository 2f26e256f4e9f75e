#pragma once
// PromptRun brings a prompt into a sequence (the phases prepare to prefill of actors/request/request_actor.h)
// and waits until the registry has adopted its checkpoints. It also serves idle work.
//
// ProgressPace decides which progress events are sent: only those with more tokens than the last, and at most
// ten a second.
//
// Threading: the request actor's. Its tasks must not outlive it.

#include <chrono>
#include <cstdint>
#include <optional>

#include "actors/request/request_context.h"
#include "runtime/detail/ticks.h"
#include "runtime/event.h"

namespace reprise::actors {

class ProgressPace {
 public:
  static constexpr std::chrono::milliseconds kBetween{100};

  /// `told` is the number of tokens that the client already knows of.
  explicit ProgressPace(std::uint32_t told) : told_(told) {}

  /// Returns true if the event is to be sent, and then counts it as sent.
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
  /// Sets the KV budget of the computation; none if compaction is off or the prompt is within it.
  Failure settle_budget(Computation& computation) const;

  /// Announces the computation to the registry, if it writes to the cache, and opens its sequence.
  runtime::Task<Failure> enter(Computation& computation, protocol::Priority priority);
  runtime::Task<Failure> restore(Computation& computation);
  /// Plans the checkpoints of the request's own prompt.
  void plan_prompt_checkpoints();
  /// `decode` begins on the device when the prefill succeeds; nullopt: nothing does.
  runtime::Task<Failure> prefill(Computation& computation, bool want_digest,
                                 std::optional<protocol::Decode> decode = std::nullopt);
  bool prefilling() const { return prefilling_; }  // a prefill with checkpoints is running

  protocol::Progress progress_at(std::uint32_t processed) const;
  void stop_telling() { tells_slices_ = false; }

  protocol::CheckpointPlan plan_of(const Computation& computation) const;
  /// Waits until the registry has adopted or rejected `reported` checkpoints of the flight.
  runtime::Task<void> settle(protocol::FlightNumber flight, std::uint32_t reported);
  runtime::Task<void> all_settled();
  runtime::Task<void> pin_prompt();

 private:
  /// Fetches turns of the chat that only an external store may have.
  runtime::Task<void> fetch_turns();
  runtime::Task<Failure> announce(Computation& computation);
  runtime::Task<Failure> open(Computation& computation, protocol::Priority priority);
  /// Restores the snapshot that a lookup found. Sets in the report the tokens restored, or the reason for a
  /// miss.
  runtime::Task<Failure> restore_found(Computation& computation, protocol::LookedUp::Restore from);
  /// Loads the state that a lower tier found. Sets in the report the tokens restored, or the reason for a
  /// miss.
  runtime::Task<Failure> load(Computation& computation, const protocol::LookedUp& found);
  /// Sends progress events to the client while its prompt is prefilled.
  runtime::Task<void> tell_slices(runtime::StreamReader<std::uint32_t> slices);
  runtime::Task<void> settle_counted(protocol::FlightNumber flight, std::uint32_t reported);

  RequestContext& request_;
  bool prefilling_ = false;
  bool tells_slices_ = false;
  std::uint32_t settling_ = 0;  // calls of settle() in progress
  runtime::Event settled_;
};

}  // namespace reprise::actors
