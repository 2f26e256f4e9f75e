#include "runtime/detail/timer_wheel.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace reprise::runtime {

namespace {
using std::chrono::milliseconds;
}

TimerWheel::~TimerWheel() {
  for (TimerEntry*& slot : slots_) {
    while (slot != nullptr) remove(*slot);
  }
}

std::uint64_t TimerWheel::tick_at_or_before(TimePoint time) const {
  if (time <= origin_) return 0;
  return static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(time - origin_).count());
}

void TimerWheel::arm(TimerEntry& entry, TimePoint deadline) {
  REPRISE_CHECK(!entry.armed(), "a timer was armed twice");
  // Rounded up, so that it never fires early; at least one tick ahead, because now_ has already fired.
  const TimePoint limit = origin_ + std::chrono::hours(24 * 365 * 100);
  entry.tick_ = std::max(tick_at_or_before(std::min(deadline, limit)) + 1, now_ + 1);
  entry.wheel_ = this;
  ++count_;
  file(entry);
}

void TimerWheel::file(TimerEntry& entry) {
  // The level is that of the highest bit group in which the tick differs from now_: all higher groups are
  // equal, so the slot comes up before any of them changes.
  const std::uint64_t difference = entry.tick_ ^ now_;
  const unsigned highest = difference == 0 ? 0 : static_cast<unsigned>(std::bit_width(difference)) - 1;
  const unsigned level = std::min(highest / kSlotBits, kLevels - 1);
  const unsigned index = static_cast<unsigned>(entry.tick_ >> (level * kSlotBits)) & (kSlots - 1);
  entry.slot_ = static_cast<std::uint16_t>(level * kSlots + index);
  TimerEntry*& slot = slots_[entry.slot_];
  entry.previous_ = nullptr;
  entry.next_ = slot;
  if (slot != nullptr) slot->previous_ = &entry;
  slot = &entry;
  occupied_[level] |= std::uint64_t{1} << index;
}

void TimerWheel::unlink(TimerEntry& entry) {
  TimerEntry*& slot = slots_[entry.slot_];
  if (entry.previous_ != nullptr) {
    entry.previous_->next_ = entry.next_;
  } else {
    slot = entry.next_;
  }
  if (entry.next_ != nullptr) entry.next_->previous_ = entry.previous_;
  if (slot == nullptr) occupied_[entry.slot_ / kSlots] &= ~(std::uint64_t{1} << (entry.slot_ % kSlots));
}

void TimerWheel::remove(TimerEntry& entry) {
  unlink(entry);
  entry.wheel_ = nullptr;
  --count_;
}

void TimerWheel::refile_slot(unsigned level, unsigned index) {
  // Detached first: an entry far ahead (last level) may be filed into the same slot again.
  TimerEntry* entry = slots_[level * kSlots + index];
  slots_[level * kSlots + index] = nullptr;
  occupied_[level] &= ~(std::uint64_t{1} << index);
  while (entry != nullptr) {
    TimerEntry* next = entry->next_;
    file(*entry);
    entry = next;
  }
}

void TimerWheel::step() {
  ++now_;
  // When a bit group rolls over, the next level's slot begins: file its entries by their lower bits.
  for (unsigned level = 1; level < kLevels; ++level) {
    if ((now_ & ((std::uint64_t{1} << (level * kSlotBits)) - 1)) != 0) break;
    refile_slot(level, static_cast<unsigned>(now_ >> (level * kSlotBits)) & (kSlots - 1));
  }
  TimerEntry*& slot = slots_[now_ & (kSlots - 1)];
  while (slot != nullptr) {
    TimerEntry& entry = *slot;
    REPRISE_CHECK(entry.tick_ == now_, "a timer is in the wrong slot");
    remove(entry);
    entry.fire_(entry);
  }
}

void TimerWheel::advance(TimePoint now) {
  const std::uint64_t target = tick_at_or_before(now);
  while (count_ != 0) {
    const std::uint64_t next = next_tick();
    if (next > target) break;
    now_ = next - 1;
    step();
  }
  now_ = std::max(now_, target);
}

std::uint64_t TimerWheel::next_tick() const {
  // The first occupied slot in the lowest nonempty level; for higher levels that is when its entries are filed again.
  for (unsigned level = 0; level < kLevels; ++level) {
    const unsigned shift = level * kSlotBits;
    const unsigned position = static_cast<unsigned>(now_ >> shift) & (kSlots - 1);
    // Rotated so that bit 0 is the slot after `position`, and the slot at `position` comes last.
    const std::uint64_t rotated = std::rotr(occupied_[level], static_cast<int>((position + 1) % kSlots));
    if (rotated == 0) continue;
    return ((now_ >> shift) + 1 + static_cast<std::uint64_t>(std::countr_zero(rotated))) << shift;
  }
  return now_ + 1;
}

TimePoint TimerWheel::next_wake() const {
  if (count_ == 0) return TimePoint::max();
  return origin_ + milliseconds(static_cast<std::int64_t>(next_tick()));
}

}  // namespace reprise::runtime
