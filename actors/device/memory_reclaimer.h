#pragma once
// MemoryReclaimer frees memory in the device's budget for jobs that need it.
//
// Free memory is taken first. Otherwise the registries are asked to evict snapshots, by one reclaim at a
// time; other searches meanwhile return kComing. If a reclaim freed nothing and nothing has changed since,
// sequences are preempted: idle work is canceled first, then the youngest sequence that is younger than the
// needy one is preempted. A preempted state is dropped, or copied to a swap of bounded size if the device
// cannot recompute it bit for bit, and returns when there is memory. A sequence with a compacted prompt is
// preempted only if it fits the swap. If nothing can be freed, the search records until the next
// round that a job is short.
//
// relieve() asks for memory ahead of need, so that requests find it free. It expects as many sequences as
// were recently open at once plus one more, or as many bytes as recently were admitted at nearly the same
// time (RecentDemand), whichever is more. If that exceeds 1/kMinTimes of the memory, nothing is evicted
// ahead: the request then waits for about one step, which costs less than a lost prefix. Registries may
// refuse to evict ahead of need what they would evict on need.
//
// The search never waits: the device worker repeats it when a reclaim has ended or memory was freed.
//
// Threading: the device worker's thread.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>

#include "actors/device/device_state.h"
#include "actors/device/worker_figures.h"

namespace reprise::actors {

struct MemoryRules {
  std::uint32_t choosy_percent = 70;  // percent of memory above which fewer checkpoints are kept
  bool evicts_ahead = true;           // reclaim ahead of need; false only to measure what that costs
};

/// Decides when the device's memory is so full that fewer checkpoints are kept: every second of a prompt's
/// spaced positions, and none inside replies.
///
/// The load is the bytes in use and those reserved by running sequences. The state turns
/// on above the mark and off 5 points below it, so that one snapshot does not toggle it. A mark of 100 is
/// never reached.
class MemoryPressure {
 public:
  explicit MemoryPressure(std::uint32_t choosy_percent) : mark_(choosy_percent) {}

  void see(std::uint64_t load, std::uint64_t limit) {
    constexpr std::uint32_t kSlack = 5;
    const std::uint32_t mark = choosy_ ? mark_ - std::min(kSlack, mark_) : mark_;
    choosy_ = mark_ < 100 && limit != 0 && load > limit / 100 * mark + limit % 100 * mark / 100;
  }
  bool choosy() const { return choosy_; }

 private:
  const std::uint32_t mark_;
  bool choosy_ = false;
};

/// Estimates the largest number of bytes admitted at nearly the same time.
///
/// A reclaim takes some messages and steps, so memory for all requests that arrive meanwhile should be free
/// already; clients answered in one step return together. Each admission counts in full at first and decays
/// with time constant kMeanwhile.
class RecentDemand {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kMeanwhile{100};

  void admitted(std::uint64_t bytes, Time now) {
    if (now > last_) {
      together_ *= std::exp(-std::chrono::duration<double>(now - last_) / kMeanwhile);
      last_ = now;
    }
    together_ += static_cast<double>(bytes);
    most_ = std::max(most_, static_cast<std::uint64_t>(together_));
  }
  /// Lowers the maximum by 1/rounds, so that one busy minute is not remembered forever.
  void fade(std::uint64_t rounds) { most_ -= most_ / rounds; }
  std::uint64_t most() const { return most_; }

 private:
  Time last_{};
  double together_ = 0;
  std::uint64_t most_ = 0;
};

enum class Availability : std::uint8_t {
  kHere,
  kComing,  // a reclaim is in progress
  kNone,    // nothing more can be freed
};

struct MemoryNeed {
  std::uint64_t bytes = 0;
  std::uint64_t block = 0;             // bytes of the largest block needed
  const SequenceRun* needy = nullptr;  // younger sequences may be preempted for it; null: none may
  bool dispensable = false;            // optional: failing to find it is not a shortage
};

/// Returns the bytes of host memory that states of preempted sequences may take if `available` bytes are free: an
/// eighth of them, at least 256 MiB and at most 16 GiB.
constexpr std::uint64_t swap_limit(std::uint64_t available) {
  constexpr std::uint64_t kMin = 256ULL << 20;
  constexpr std::uint64_t kMax = 16ULL << 30;
  return std::clamp(available / 8, kMin, kMax);
}

class MemoryReclaimer {
 public:
  static constexpr std::uint64_t kMinTimes = 16;

  /// Asks the registries for bytes, possibly ahead of need; reclaim_ended() must follow.
  using StartReclaim = std::function<void(std::uint64_t bytes, bool ahead)>;

  /// `state` and `figures` must outlive it. `swap_bytes` is the host memory for states of preempted
  /// sequences; nullopt: swap_limit() of the memory available at the first preemption that needs it.
  MemoryReclaimer(DeviceState& state, std::optional<std::uint64_t> swap_bytes, const MemoryRules& rules,
                  WorkerFigures& figures, StartReclaim start_reclaim);

  Availability find(const MemoryNeed& need);
  /// Returns the pressure, updated to the current load.
  const MemoryPressure& pressure();
  /// Starts a reclaim ahead of need if the expected demand does not fit and none is in progress.
  void relieve();
  /// Frees more after a store had enough bytes but no free block of this size.
  void look_for_block(std::uint64_t block);

  /// Cancels idle work, else preempts the youngest sequence that is younger than `needy`. With a null
  /// `needy`, only cancels idle work. Returns false if nothing was freed.
  bool preempt_for(const SequenceRun* needy);
  /// Brings back preempted sequences, the oldest first. Returns false if one does not fit; then no new
  /// sequence may be admitted.
  bool bring_back_preempted();
  /// Frees the swap space of a sequence, when it ends or is back.
  void forget_saved(SequenceRun& run);
  std::uint64_t swapped_bytes() const { return swapped_bytes_; }

  // -- events

  void reclaim_ended(std::uint64_t freed_bytes);
  bool reclaiming() const { return reclaim_ == Reclaim::kUnderWay || reclaim_ == Reclaim::kOvertaken; }
  /// Must be called when memory was freed, or may be freed that could not be before.
  void memory_changed();
  /// Adds an admission to the demand estimate.
  void admitted(std::uint64_t cost, RecentDemand::Time now) { demand_.admitted(cost, now); }

  // -- rounds: in each, every waiting job searches once

  void begin_round() { job_is_short_ = false; }
  bool job_is_short() const { return job_is_short_; }

 private:
  enum class Reclaim : std::uint8_t {
    kUntried,    // no reclaim since memory changed last
    kUnderWay,   // a reclaim is in progress
    kOvertaken,  // in progress, and memory has changed since: its result proves nothing
    kExhausted,  // the last reclaim freed nothing, and nothing has changed since
  };

  bool fits_swap(const StateTable& table, const SequenceRun& run);
  /// Copies the state of a sequence into the swap. Returns false if the host has no memory for it.
  bool save(StateTable& table, SequenceRun& run);
  /// Returns false if its state can neither be recomputed nor saved.
  bool preempt(StateTable& table, SequenceRun& run);
  bool bring_back(StateTable& table, SequenceRun& run);
  /// Returns the bytes that will probably be needed soon.
  std::uint64_t expected();

  DeviceState& state_;
  std::optional<std::uint64_t> swap_bytes_;  // nullopt until first needed, if not given
  WorkerFigures& figures_;
  const StartReclaim start_reclaim_;
  const MemoryRules rules_;
  MemoryPressure pressure_;
  std::uint64_t max_at_once_ = 0;     // recent maximum of the bytes charged to all sequences
  std::uint64_t largest_charge_ = 0;  // recent maximum of the bytes charged to one sequence
  RecentDemand demand_;
  Reclaim reclaim_ = Reclaim::kUntried;
  bool ahead_ = false;          // the reclaim in progress is ahead of need
  bool nothing_ahead_ = false;  // the last reclaim freed nothing, and nothing has changed since
  bool job_is_short_ = false;
  std::uint64_t swapped_bytes_ = 0;
};

}  // namespace reprise::actors
