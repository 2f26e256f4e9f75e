#include "runtime/detail/ticks.h"

#include <thread>

namespace reprise::runtime {

namespace {

thread_local const TimePoint* virtual_now = nullptr;

double measure_ns_per_tick() {
#if defined(__aarch64__)
  std::uint64_t hertz;
  asm volatile("mrs %0, cntfrq_el0" : "=r"(hertz));
  return 1e9 / static_cast<double>(hertz);
#else
  const TimePoint clock_begin = std::chrono::steady_clock::now();
  const std::uint64_t ticks_begin = ticks();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const std::uint64_t ticks_end = ticks();
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - clock_begin;
  return elapsed.count() / static_cast<double>(ticks_end - ticks_begin);
#endif
}

double ns_per_tick() {
  static const double value = measure_ns_per_tick();
  return value;
}

}  // namespace

// Not inlined: a coroutine must not keep the address of a thread_local across a suspension.
[[gnu::noinline]] TimePoint Clock::now() noexcept {
  return virtual_now != nullptr ? *virtual_now : std::chrono::steady_clock::now();
}

[[gnu::noinline]] const TimePoint* Clock::virtual_time() noexcept {
  return virtual_now;
}

void Clock::set_virtual_time(const TimePoint* time) noexcept {
  virtual_now = time;
}

std::uint64_t ticks_to_ns(std::uint64_t count) {
  return static_cast<std::uint64_t>(static_cast<double>(count) * ns_per_tick());
}

std::uint64_t ns_to_ticks(std::uint64_t ns) {
  return static_cast<std::uint64_t>(static_cast<double>(ns) / ns_per_tick());
}

std::uint64_t time_slice_ticks() {
  static const std::uint64_t value = ns_to_ticks(50'000);
  return value;
}

}  // namespace reprise::runtime
