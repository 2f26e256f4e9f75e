#pragma once
// A team of threads that works on one thing at a time: fork, do parts, join.
//
// for_parts(n, work) calls work(part) once for each part 0 ... n-1, on the calling thread and its helpers,
// and returns when all are done. Which thread does which part is open, so a part's result must not depend on
// it; the kernels' do not. Each thread has a share of the parts that follow each other, the same in every call with as many, and
// helps others when it is done: what a part reads lies behind what the thread read before it, and is in its caches, or in
// the memory beside it, if it was the last to read it. The helpers poll for a moment between calls, then sleep.
//
// On a machine with several memories (gpu/numa_nodes.h) the helpers are spread over them in the order of their shares, and
// each stays with its own: neighbours in a call are neighbours in memory. The caller is whoever it is, and is left alone.
//
// Threading: one caller at a time. Exceptions must not leave `work`.

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
  /// `count` threads in all, the caller included; 0: one for each core.
  explicit Threads(unsigned count = 0, const NumaNodes& nodes = numa_nodes());
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  unsigned count() const { return static_cast<unsigned>(helpers_.size()) + 1; }
  /// Whether the helpers are spread over several memories, so that it matters who writes first what is to be read.
  bool over_nodes() const { return over_nodes_; }

  void for_parts(std::size_t parts, const std::function<void(std::size_t)>& work);

  /// Cuts [0, size) into ranges of whole `grain`s, `ranges` of them for each thread if there are so many grains, and
  /// calls work(begin, end) for each. More of them make it matter less that threads differ in speed.
  void for_ranges(std::size_t size, std::size_t grain,
                  const std::function<void(std::size_t, std::size_t)>& work, std::size_t ranges = 4);

 private:
  // The parts of a thread in the call in progress, on a line of the cache of its own.
  struct alignas(64) Share {
    std::atomic<std::size_t> next{0};  // relaxed: hands out numbers
    std::size_t end = 0;
  };

  void help(std::size_t thread, const std::vector<int>& processors);
  /// Those of `thread`, then those that others have left.
  void take_parts(std::size_t thread);

  // The call in progress. Written by the caller before it raises call_; release/acquire on call_ publishes
  // them.
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::vector<Share> shares_;  // of each thread, the caller's first
  std::atomic<unsigned> helpers_done_{
      0};  // release by helpers, acquire by the caller: their results are seen
  std::atomic<std::uint64_t> call_{0};

  std::mutex mutex_;
  std::condition_variable raised_;
  bool ending_ = false;  // guarded by mutex_
  bool over_nodes_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace reprise::gpu
