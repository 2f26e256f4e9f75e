#include "base/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "base/machine.h"

namespace reprise {
namespace {

constexpr unsigned kMaxThreads = 8;

}  // namespace

std::size_t threads_for(std::size_t parts, std::size_t parts_a_thread) {
  const std::size_t wanted = (parts + parts_a_thread - 1) / parts_a_thread;
  return std::clamp<std::size_t>(wanted, 1, std::min(available_processors(), kMaxThreads));
}

void in_parallel(std::size_t parts, const std::function<void(std::size_t)>& work,
                 std::size_t parts_a_thread) {
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    // Relaxed: only distributes indices; join() publishes the results.
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < parts;) work(i);
  };
  const std::size_t threads = threads_for(parts, parts_a_thread);
  std::vector<std::jthread> others;
  others.reserve(threads - 1);
  try {
    while (others.size() + 1 < threads) others.emplace_back(take);
  } catch (const std::system_error&) {  // no more threads available: continue with fewer
  }
  take();
}

}  // namespace reprise
