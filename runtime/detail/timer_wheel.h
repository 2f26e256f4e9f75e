#pragma once
// The deadlines of one executor: a hierarchical timer wheel with O(1) insert and remove.
//
// Ticks are milliseconds. A timer never fires early; it fires at the first advance() at or after its tick, so
// late by less than one tick plus the caller's delay. Levels of 64 slots cover 64 ms, 4 s, 4.4 min, 4.7 h and
// 12 days; later deadlines wait in the last level and are filed again when their slot comes up.
//
// Invariant: an entry in level L, slot S fires within the span that S covers; bit S of occupied_[L] is set
// exactly when the slot's list is not empty. Threading: one thread (the executor's).

#include <array>
#include <cstdint>

#include "runtime/detail/ticks.h"

namespace reprise::runtime {

/// One deadline, embedded in an object that waits. Removes itself on destruction, so a coroutine may hold it.
class TimerEntry {
 public:
  using Fire = void (*)(TimerEntry&);

  explicit TimerEntry(Fire fire) : fire_(fire) {}
  ~TimerEntry() { cancel(); }
  TimerEntry(const TimerEntry&) = delete;
  TimerEntry& operator=(const TimerEntry&) = delete;

  bool armed() const { return wheel_ != nullptr; }
  void cancel();

 private:
  friend class TimerWheel;
  TimerEntry* previous_ = nullptr;
  TimerEntry* next_ = nullptr;
  class TimerWheel* wheel_ = nullptr;
  std::uint64_t tick_ = 0;
  std::uint16_t slot_ = 0;  // level * kSlots + index
  Fire fire_;
};

class TimerWheel {
 public:
  explicit TimerWheel(TimePoint origin) : origin_(origin) {}
  ~TimerWheel();

  bool empty() const { return count_ == 0; }

  /// Requires: `entry` is not armed. A deadline in the past fires at the next advance().
  void arm(TimerEntry& entry, TimePoint deadline);
  void remove(TimerEntry& entry);

  /// Fires all entries due at `now`. A firing entry is no longer armed, and may arm or cancel any entry.
  void advance(TimePoint now);

  /// Returns a time before which no entry is due; TimePoint::max() when empty.
  TimePoint next_wake() const;

 private:
  static constexpr unsigned kLevels = 5;
  static constexpr unsigned kSlotBits = 6;
  static constexpr unsigned kSlots = 1U << kSlotBits;

  std::uint64_t tick_at_or_before(TimePoint time) const;
  /// Returns the first tick after now_ at which entries fire or are filed again. Requires !empty().
  std::uint64_t next_tick() const;
  void file(TimerEntry& entry);
  void unlink(TimerEntry& entry);
  void step();
  void refile_slot(unsigned level, unsigned index);

  TimePoint origin_;
  std::uint64_t now_ = 0;  // all ticks up to and including this one have fired
  std::uint64_t count_ = 0;
  std::array<std::uint64_t, kLevels> occupied_{};
  std::array<TimerEntry*, kLevels * kSlots> slots_{};
};

inline void TimerEntry::cancel() {
  if (wheel_ != nullptr) wheel_->remove(*this);
}

}  // namespace reprise::runtime
