#include "models/files/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace reprise::models {
namespace {

constexpr unsigned kMostThreads = 8;
constexpr std::size_t kPartsAThread = 8;  // fewer are not worth a thread

}  // namespace

void in_parallel(std::size_t parts, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    // relaxed: hands out numbers; the threads' ends publish what they wrote.
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < parts;) work(i);
  };
  const std::size_t threads = std::min<std::size_t>(
      std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads), parts / kPartsAThread + 1);
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < threads; ++i) others.emplace_back(take);
  take();
}

}  // namespace reprise::models
