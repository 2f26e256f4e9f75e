#include "tests/fuzz/oracle.h"

#include <time.h>

#include <atomic>
#include <cstdio>

#include "tests/small_stack.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REPRISE_SANITIZER_COUNTS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define REPRISE_SANITIZER_COUNTS 1
#endif
#endif

#ifdef REPRISE_SANITIZER_COUNTS
#include <sanitizer/allocator_interface.h>
#else
#include "tests/counted_memory.h"
#endif

namespace reprise::fuzz {
namespace {

#ifdef REPRISE_SANITIZER_COUNTS

// The sanitizer reports the bytes held but no peak, so it is asked each time this much was allocated.
constexpr std::size_t kBetweenLooks = std::size_t{1} << 20;

std::atomic<std::size_t> since_last_look{0};
std::atomic<std::int64_t> max_held{0};

std::int64_t held_now() {
  return static_cast<std::int64_t>(__sanitizer_get_current_allocated_bytes());
}

void look() {
  since_last_look.store(0, std::memory_order_relaxed);
  const std::int64_t now = held_now();
  if (now > max_held.load(std::memory_order_relaxed)) max_held.store(now, std::memory_order_relaxed);
}

void on_malloc(const volatile void*, std::size_t size) {
  if (since_last_look.fetch_add(size, std::memory_order_relaxed) + size >= kBetweenLooks) look();
}

void on_free(const volatile void*) {}

std::int64_t begin_count() {
  static const int installed = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  REPRISE_CHECK(installed > 0, "no hook for allocations");
  const std::int64_t now = held_now();
  max_held.store(now, std::memory_order_relaxed);
  return now;
}

std::int64_t max_since(std::int64_t begin) {
  look();
  return max_held.load(std::memory_order_relaxed) - begin;
}

#else

std::int64_t begin_count() {
  const std::int64_t now = counted_memory::bytes;
  counted_memory::max_bytes = now;
  return now;
}

std::int64_t max_since(std::int64_t begin) {
  return counted_memory::max_bytes - begin;
}

#endif

double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::string fault_of(const Watched& run, std::size_t text_bytes, const Bounds& bounds) {
  char text[160];
  if (run.seconds > bounds.seconds) {
    std::snprintf(text, sizeof text, "takes %.1f s of CPU time for %zu bytes; the limit is %g s", run.seconds,
                  text_bytes, bounds.seconds);
    return text;
  }
  if (run.bytes > bounds.bytes) {
    std::snprintf(text, sizeof text, "holds %lld MiB at once for %zu bytes; the limit is %lld MiB",
                  static_cast<long long>(run.bytes >> 20), text_bytes,
                  static_cast<long long>(bounds.bytes >> 20));
    return text;
  }
  return {};
}

}  // namespace

std::string text_of(const Target& target, std::string_view input) {
  return target.grow != nullptr ? target.grow(input) : std::string(input);
}

Watched run_watched(const Target& target, std::string_view input, const Bounds& bounds) {
  const std::string text = text_of(target, input);
  Watched run;
  const auto measured = [&] {
    const std::int64_t held = begin_count();
    const double begin = thread_seconds();
    run.taken = target.run(text);
    run.seconds = thread_seconds() - begin;
    run.bytes = max_since(held);
  };
  if (bounds.stack_bytes == 0) {
    measured();
  } else {
    on_stack(bounds.stack_bytes, measured);
  }
  run.fault = fault_of(run, text.size(), bounds);
  return run;
}

}  // namespace reprise::fuzz
