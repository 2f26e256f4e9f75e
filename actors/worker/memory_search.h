#pragma once
// MemorySearch: finds bytes for whoever needs them, in the device's one budget.
//
// What is free is taken. What is short is asked back from the registries first, by one reclaim at a time: those
// who look meanwhile hear that it is coming. Only when a reclaim has freed nothing, and nothing has changed
// since, sequences give way: idle work is cancelled, then the youngest sequence that is younger than the needy
// one is preempted. Its state is dropped, or saved to a bounded swap where the device cannot recompute it in the
// same bits, and comes back when there is room. One whose prompt was compacted gives way only where it can be saved.
// Whoever finds nothing even so is short, which the search remembers until the next round.
//
// relieve() asks the registries for some before anybody needs it, as much as recent requests needed, so that those who come
// find it free. As many sequences as were open at once lately may come again, and one more may come before the room of one
// that ends is free; or as many as came at nearly the same time (RecentDemand), whoever is open. Where that is more than
// 1/kLeastTimes of the memory nothing goes ahead of need: a request waits about one step for its room then, which is less
// than what a lost prefix costs. Registries may refuse what they would give to the needy: a reclaim of this kind that has
// freed nothing says nothing of the other.
//
// The search itself never waits. It is told when a reclaim has ended, and when memory has changed hands; the
// device worker looks again then.
//
// Threading: the device worker's thread.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>

#include "actors/worker/device_state.h"
#include "actors/worker/worker_figures.h"

namespace reprise::actors {

struct MemoryRules {
  std::uint32_t choosy_percent = 70;  // of the memory: above it the cache keeps less; 100: never
  bool evicts_ahead = true;           // of need; false: to measure what that costs
};

/// Whether the device's memory is so full that the cache keeps less: of the spaced places of a prompt every second, and
/// none inside replies. The mark is passed upwards at once and downwards only a little below, so that one snapshot more or
/// less does not turn that on and off. A mark of 100 is never reached. The load is what is held and what running sequences
/// were promised.
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

/// How many bytes sequences took that came at nearly the same time, at most, lately.
///
/// Room that is asked back takes some messages and steps to come. Whoever comes meanwhile finds only what was free before,
/// so as much should be free as comes within that time. Clients that were answered in one step come back together: the room
/// of one that ends is no measure of it. Each admission counts in full at first and fades within kMeanwhile.
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
  /// The most of before counts less by this share, so that one busy minute is not remembered for ever.
  void fade(std::uint64_t rounds) { most_ -= most_ / rounds; }
  std::uint64_t most() const { return most_; }

 private:
  Time last_{};
  double together_ = 0;
  std::uint64_t most_ = 0;
};

enum class Room : std::uint8_t {
  kHere,
  kComing,  // it is being asked back
  kNone,    // nothing more can be freed now
};

struct MemoryNeed {
  std::uint64_t bytes = 0;
  std::uint64_t block = 0;             // the largest that is wanted
  const SequenceRun* needy = nullptr;  // younger sequences give way to it; none: nobody does
  bool dispensable = false;            // nobody waits for it: without it, nobody is short
};

class MemorySearch {
 public:
  static constexpr std::uint64_t kLeastTimes =
      16;  // what is expected, in a memory in which some goes ahead of need

  /// Asks the registries for so many bytes, maybe ahead of need; reclaim_ended() follows.
  using StartReclaim = std::function<void(std::uint64_t bytes, bool ahead)>;

  /// `state` and `figures` must outlive it. `swap_bytes`: of the host, for states of preempted sequences.
  MemorySearch(DeviceState& state, std::uint64_t swap_bytes, const MemoryRules& rules, WorkerFigures& figures,
               StartReclaim start_reclaim);

  Room find(const MemoryNeed& need);
  /// As it is now.
  const MemoryPressure& pressure();
  /// Asks for memory ahead of need, one reclaim at a time.
  void relieve();
  /// After a store found no block where there were bytes for it: sees to it that more is freed.
  void look_for_block(std::uint64_t block);

  /// Idle work first, then the youngest sequence that is younger than the needy one; without a needy one, idle
  /// work alone. False: nobody was left to give way.
  bool preempt_for(const SequenceRun* needy);
  /// The oldest first. False: there is no room for one of them yet, and nobody new may take it.
  bool bring_back_preempted();
  /// A sequence that was saved is given up, or back: its swap is free.
  void forget_saved(SequenceRun& run);
  std::uint64_t swapped_bytes() const { return swapped_bytes_; }

  // -- what is learnt of the world

  void reclaim_ended(std::uint64_t freed_bytes);
  bool reclaiming() const { return reclaim_ == Reclaim::kUnderWay || reclaim_ == Reclaim::kOvertaken; }
  /// Something was freed, or may be freed now that could not be before.
  void memory_changed();
  /// A sequence of this price has its place.
  void admitted(std::uint64_t price, RecentDemand::Time now) { demand_.admitted(price, now); }

  // -- rounds: everybody who needs something looks once

  void begin_round() { somebody_is_short_ = false; }
  bool somebody_is_short() const { return somebody_is_short_; }

 private:
  enum class Reclaim : std::uint8_t {
    kUntried,    // since memory changed last
    kUnderWay,   // the registries have been asked
    kOvertaken,  // the same, and memory has changed since: what it ends with says nothing
    kExhausted,  // it freed nothing, and nothing has changed since
  };

  bool fits_swap(const StateTable& table, const SequenceRun& run) const;
  void preempt(StateTable& table, SequenceRun& run);
  bool bring_back(StateTable& table, SequenceRun& run);
  /// Bytes that will likely be wanted soon.
  std::uint64_t expected();

  DeviceState& state_;
  const std::uint64_t swap_bytes_;
  WorkerFigures& figures_;
  const StartReclaim start_reclaim_;
  const MemoryRules rules_;
  MemoryPressure pressure_;
  std::uint64_t most_at_once_ = 0;    // charged to all sequences, lately
  std::uint64_t largest_charge_ = 0;  // to one, lately
  RecentDemand demand_;
  Reclaim reclaim_ = Reclaim::kUntried;
  bool ahead_ = false;          // of need: the reclaim under way
  bool nothing_ahead_ = false;  // the last of these freed nothing, and nothing has changed since
  bool somebody_is_short_ = false;
  std::uint64_t swapped_bytes_ = 0;
};

}  // namespace reprise::actors
