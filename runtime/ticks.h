#pragma once
// The cheapest monotonic clock of the machine, for accounting the time that actors spend.
//
// Threading: any thread; values of different threads may be compared (invariant TSC, ARM's system counter).

#include <chrono>
#include <cstdint>

namespace reprise::runtime {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

/// Now plus a duration, TimePoint::max() where that would be beyond it.
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
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
#endif
}

/// Nanoseconds for a number of ticks. The rate is measured against Clock on first use where the machine does
/// not tell it (about 2 ms).
std::uint64_t ticks_to_ns(std::uint64_t count);
std::uint64_t ns_to_ticks(std::uint64_t ns);

/// How long one actor, and one round of a home, may go on before others are looked at: 50 µs.
std::uint64_t time_slice_ticks();

}  // namespace reprise::runtime
