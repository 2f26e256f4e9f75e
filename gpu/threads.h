#pragma once
// A fork-join thread pool that runs one parallel loop at a time.
//
// for_parts(n, work) calls work(part) once for each part in [0, n), on the calling thread and the helpers,
// and returns when all parts are done. Each thread starts with its share, a run of consecutive parts that is
// the same in every call with this n, and then takes parts from other shares. So a thread mostly reads what
// it read before, from its caches or its NUMA node; but any thread may run any part, so results must not
// depend on the thread. Helpers spin for some tens of microseconds between calls, then sleep.
//
// With several NUMA nodes (gpu/numa_nodes.h) the helpers are pinned in the order of their shares, so that
// consecutive parts run on one node. The caller's affinity is not changed.
//
// Threading: one caller at a time. `work` must not throw.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "gpu/numa_nodes.h"

namespace reprise::gpu {

class Threads {
 public:
  /// `count` includes the caller; 0: one thread per core.
  explicit Threads(unsigned count = 0, const NumaNodes& nodes = numa_nodes());
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  unsigned count() const { return static_cast<unsigned>(helpers_.size()) + 1; }
  /// True if the helpers are pinned to several NUMA nodes: first touch decides which node memory is on.
  bool over_nodes() const { return over_nodes_; }

  void for_parts(std::size_t parts, const std::function<void(std::size_t)>& work);

  /// Calls work(begin, end) for ranges that cover [0, size) and begin at multiples of `grain`; at most
  /// `ranges` per thread. More ranges balance the load better.
  void for_ranges(std::size_t size, std::size_t grain,
                  const std::function<void(std::size_t, std::size_t)>& work, std::size_t ranges = 4);

 private:
  // A thread's parts in the current call, on their own cache line.
  struct alignas(64) Share {
    std::atomic<std::size_t> next{0};  // relaxed: only hands out part numbers; call_ publishes the rest
    std::size_t end = 0;
  };

  void help(std::size_t thread, const std::vector<int>& processors);
  /// Runs this thread's share, then parts left in other shares.
  void take_parts(std::size_t thread);

  // The current call. The caller writes these before it increments call_; release/acquire on call_ publishes
  // them.
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::vector<Share> shares_;  // one per thread, the caller's first
  // Helpers release, the caller acquires: the caller sees the results of all parts.
  std::atomic<unsigned> helpers_done_{0};
  std::atomic<std::uint64_t> call_{0};

  std::mutex mutex_;
  std::condition_variable raised_;
  bool ending_ = false;  // guarded by mutex_
  bool over_nodes_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace reprise::gpu
