#include "gpu/threads.h"

#include <algorithm>

#include "base/machine.h"

namespace reprise::gpu {

namespace {

constexpr int kPolls = 2000;  // some tens of microseconds, the time between two kernels of a forward pass

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace

Threads::Threads(unsigned count, const NumaNodes& nodes) {
  if (count == 0) count = available_processors();
  shares_ = std::vector<Share>(count);
  over_nodes_ = nodes.count() > 1 && count > 1;
  for (unsigned i = 1; i < count; ++i) {
    const std::vector<int> processors =
        over_nodes_ ? nodes.processors[i * nodes.count() / count] : std::vector<int>{};
    helpers_.emplace_back([this, i, processors] { help(i, processors); });
  }
}

Threads::~Threads() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  raised_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void Threads::take_parts(std::size_t thread) {
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    Share& share = shares_[(thread + i) % shares_.size()];
    while (share.next.load(std::memory_order_relaxed) < share.end) {  // a load is cheaper than the fetch_add
      const std::size_t part = share.next.fetch_add(1, std::memory_order_relaxed);
      if (part < share.end) (*work_)(part);
    }
  }
}

void Threads::for_parts(std::size_t parts, const std::function<void(std::size_t)>& work) {
  if (helpers_.empty() || parts <= 1) {
    for (std::size_t part = 0; part < parts; ++part) work(part);
    return;
  }
  work_ = &work;
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    shares_[i].next.store(parts * i / shares_.size(), std::memory_order_relaxed);
    shares_[i].end = parts * (i + 1) / shares_.size();
  }
  helpers_done_.store(0, std::memory_order_relaxed);
  {
    // Under the mutex, so that a helper about to sleep does not miss the call.
    std::lock_guard lock(mutex_);
    call_.fetch_add(1, std::memory_order_release);
  }
  raised_.notify_all();
  take_parts(0);
  // Every helper must have finished this call before the next one overwrites it. Yields after a while: a late
  // helper may need this core.
  for (int i = 0; helpers_done_.load(std::memory_order_acquire) != helpers_.size(); ++i) {
    if (i < kPolls) {
      relax();
    } else {
      std::this_thread::yield();
    }
  }
}

void Threads::help(std::size_t thread, const std::vector<int>& processors) {
  if (!processors.empty()) stay_on(processors);  // a failure costs only speed
  std::uint64_t seen = 0;
  while (true) {
    for (int i = 0; i < kPolls && call_.load(std::memory_order_acquire) == seen; ++i) relax();
    if (call_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      raised_.wait(lock, [&] { return ending_ || call_.load(std::memory_order_acquire) != seen; });
      if (call_.load(std::memory_order_acquire) == seen) return;
    }
    ++seen;
    take_parts(thread);
    helpers_done_.fetch_add(1, std::memory_order_release);
  }
}

void Threads::for_ranges(std::size_t size, std::size_t grain,
                         const std::function<void(std::size_t, std::size_t)>& work, std::size_t ranges) {
  const std::size_t grains = (size + grain - 1) / grain;
  const std::size_t parts = std::min<std::size_t>(grains, count() == 1 ? 1 : ranges * count());
  const auto range_of = [&](std::size_t part) {
    const std::size_t begin = grains * part / parts * grain;
    const std::size_t end = std::min(size, grains * (part + 1) / parts * grain);
    if (begin < end) work(begin, end);
  };
  for_parts(parts, std::ref(range_of));  // std::ref: std::function would allocate a copy of the lambda
}

}  // namespace reprise::gpu
