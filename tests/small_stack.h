#pragma once
// Runs a piece of work on a thread with a stack of a given size, or of one as small as any of the server's: glibc gives
// its threads 2 MiB where the stack of the process has no limit, and 8 MiB otherwise. Sanitizers make frames several
// times larger.

#include <pthread.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <utility>

#include "base/check.h"
#include "tests/sanitized.h"

namespace reprise {

inline constexpr std::size_t kSmallStack = std::size_t{kSanitized ? 8 : 2} << 20;

/// What the work throws is thrown on.
inline void on_stack(std::size_t bytes, std::function<void()> work) {
  struct Job {
    std::function<void()> work;
    std::exception_ptr thrown{};
  } job{std::move(work)};
  pthread_attr_t attributes;
  pthread_t thread{};
  REPRISE_CHECK(pthread_attr_init(&attributes) == 0, "no attributes of a thread");
  REPRISE_CHECK(pthread_attr_setstacksize(&attributes, bytes) == 0, "no stack of that size");
  const auto run = [](void* given) -> void* {
    auto& of = *static_cast<Job*>(given);
    try {
      of.work();
    } catch (...) {
      of.thrown = std::current_exception();
    }
    return nullptr;
  };
  REPRISE_CHECK(pthread_create(&thread, &attributes, run, &job) == 0, "no thread");
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  if (job.thrown) std::rethrow_exception(job.thrown);
}

inline void on_small_stack(std::function<void()> work) {
  on_stack(kSmallStack, std::move(work));
}

}  // namespace reprise
