#pragma once
// The runtime's two clocks: Clock, for deadlines, and ticks(), the machine's cheapest monotonic clock, which
// measures the time that actors run.
//
// Threading: any thread; values of different threads are comparable (invariant TSC, Arm's system counter).

#include <chrono>
#include <cstdint>

namespace reprise::runtime {

using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

/// The steady clock; on a thread that runs a simulation (runtime/testing/simulator.h) its virtual time.
struct Clock {
  using time_point = TimePoint;
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  static constexpr bool is_steady = true;

  static TimePoint now() noexcept;

  /// The virtual time of this thread; null: it has none. Set by a simulation, which owns it.
  static const TimePoint* virtual_time() noexcept;
  static void set_virtual_time(const TimePoint* time) noexcept;
};

/// Returns now + `duration`, saturated at TimePoint::max().
inline TimePoint deadline_after(Duration duration) {
  const TimePoint now = Clock::now();
  return duration > TimePoint::max() - now ? TimePoint::max() : now + duration;
}

inline std::uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();  // __rdtsc() without the 40,000 lines of <x86intrin.h>
#elif defined(__aarch64__)
  std::uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Converts ticks to nanoseconds. If the machine does not report the rate, the first call measures it (2 ms).
std::uint64_t ticks_to_ns(std::uint64_t count);
std::uint64_t ns_to_ticks(std::uint64_t ns);

/// The time slice of one actor, and of one round of an executor: 50 us.
std::uint64_t time_slice_ticks();

}  // namespace reprise::runtime
