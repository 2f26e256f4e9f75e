#pragma once
// Figures of a tier. Written by its actors and read by any thread; relaxed throughout, since each number is
// read by itself.

#include <array>
#include <atomic>
#include <cstdint>

#include "protocol/snapshots/record.h"

namespace reprise::actors {

struct TierFigures {
  using Figure = std::atomic<std::uint64_t>;
  static constexpr std::size_t kRefusals = 10;

  Figure off{0};  // 1: writing is off
  Figure bytes{0}, budget_bytes{0};
  Figure fetches{0};                                                // requests for a state
  Figure loaded{0}, loaded_tokens{0}, loaded_bytes{0}, load_ns{0};  // returned
  Figure slower{0};                                                 // not read: computing is faster
  Figure stored{0}, stored_bytes{0}, waiting{0};                    // written; to be written
  Figure overtaken{0};  // not written: too many waited, or the snapshot was freed
  Figure no_space{0};   // not written: too large, or others held the lock
  Figure evicted{0}, expired{0}, failures{0};
  std::array<Figure, kRefusals> refused{};

  static void add(Figure& figure, std::uint64_t count = 1) {
    figure.fetch_add(count, std::memory_order_relaxed);
  }
  static void set(Figure& figure, std::uint64_t value) { figure.store(value, std::memory_order_relaxed); }
  /// Returns the read speed in bytes per second; 0 if not known.
  double bytes_per_second() const {
    const std::uint64_t time = since(load_ns, forgotten_ns_);
    return time == 0
               ? 0
               : static_cast<double>(since(loaded_bytes, forgotten_bytes_)) * 1e9 / static_cast<double>(time);
  }
  /// Returns true if reading `brought` bytes is predicted to take longer than computing `tokens`, by more
  /// than kMayLose. Returns false if one of the speeds is not known. The read speed is forgotten after
  /// kRetryAfter refusals without a read, since nothing but a read can correct it.
  bool would_lose(std::uint64_t brought, std::uint32_t tokens, double seconds_per_token) {
    const double speed = bytes_per_second();
    if (speed == 0 || seconds_per_token == 0) return false;
    const bool loses = static_cast<double>(brought) / speed > tokens * seconds_per_token + kMayLose;
    refused_in_a_row_ = loses ? refused_in_a_row_ + 1 : 0;
    if (refused_in_a_row_ <= kRetryAfter) return loses;
    refused_in_a_row_ = 0;
    set(forgotten_bytes_, loaded_bytes.load(std::memory_order_relaxed));
    set(forgotten_ns_, load_ns.load(std::memory_order_relaxed));
    return false;
  }
  static constexpr double kMayLose = 0.020;  // seconds
  static constexpr std::uint32_t kRetryAfter = 16;

 private:
  static std::uint64_t since(const Figure& figure, const Figure& forgotten) {
    const std::uint64_t before = forgotten.load(std::memory_order_relaxed);
    return figure.load(std::memory_order_relaxed) - before;
  }

  // Totals at the moment when the speed was last forgotten.
  Figure forgotten_bytes_{0}, forgotten_ns_{0};
  std::uint32_t refused_in_a_row_ = 0;  // the tier's actor alone
};

}  // namespace reprise::actors
