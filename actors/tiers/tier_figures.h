#pragma once
// What a tier lets everyone see at any time.
//
// Threading: written by the tier's actors, read by anybody. Relaxed throughout: each number stands for itself.

#include <array>
#include <atomic>
#include <cstdint>

#include "protocol/snapshots/record.h"

namespace reprise::actors {

struct TierFigures {
  using Figure = std::atomic<std::uint64_t>;
  static constexpr std::size_t kRefusals = 10;

  Figure off{0};  // 1: it takes nothing at present
  Figure bytes{0}, budget_bytes{0};
  Figure fetches{0};                                                // asked for
  Figure loaded{0}, loaded_tokens{0}, loaded_bytes{0}, load_ns{0};  // brought
  Figure slower{0};                                                 // left: computing is quicker
  Figure stored{0}, stored_bytes{0}, waiting{0};                    // written, and to be
  Figure overtaken{0};  // not written: too many waited, or the snapshot had gone
  Figure no_room{0};    // not written: larger than what may be there, or others were in the way
  Figure evicted{0}, expired{0}, failures{0};
  std::array<Figure, kRefusals> refused{};

  static void add(Figure& figure, std::uint64_t count = 1) {
    figure.fetch_add(count, std::memory_order_relaxed);
  }
  static void set(Figure& figure, std::uint64_t value) { figure.store(value, std::memory_order_relaxed); }
  /// That it brings; 0: not known yet.
  double bytes_per_second() const {
    const auto time = static_cast<double>(load_ns.load(std::memory_order_relaxed));
    return time == 0 ? 0 : static_cast<double>(loaded_bytes.load(std::memory_order_relaxed)) * 1e9 / time;
  }
  /// Whether so many bytes are predicted to come later than `tokens` are computed, by more than kMayLose; no, where one
  /// of the speeds is not known yet.
  bool would_lose(std::uint64_t brought, std::uint32_t tokens, double seconds_per_token) const {
    const double speed = bytes_per_second();
    if (speed == 0 || seconds_per_token == 0) return false;
    return static_cast<double>(brought) / speed > tokens * seconds_per_token + kMayLose;
  }
  static constexpr double kMayLose = 0.020;  // seconds
};

}  // namespace reprise::actors
