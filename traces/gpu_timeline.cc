#include "traces/gpu_timeline.h"

#include <tracy/TracyCUDA.hpp>

#include <atomic>
#include <mutex>
#include <string_view>

#include "traces/trace.h"

namespace reprise::traces {
namespace {

constexpr std::string_view kLine = "GPU";

/// Never destroyed: CUPTI's thread may deliver records until the process ends.
struct Timeline {
  std::mutex mutex;
  tracy::CUDACtx* context =
      nullptr;  // guarded by mutex; created once, because Tracy announces it to later connections
  // Relaxed: a thread that reads an old value checks again under the mutex.
  std::atomic<bool> watches{false};

  static Timeline& instance() {
    static auto* timeline = new Timeline;
    return *timeline;
  }

  void set(bool wanted) {
    const std::lock_guard lock(mutex);
    if (watches.load(std::memory_order_relaxed) == wanted) return;
    if (context == nullptr) {
      context = TracyCUDAContext();
      TracyCUDAContextName(context, kLine.data(), kLine.size());
    }
    if (wanted) {
      TracyCUDAStartProfiling(context);
    } else {
      TracyCUDAStopProfiling(context);
    }
    watches.store(wanted, std::memory_order_relaxed);
  }
};

}  // namespace

void follow_gpu() {
  Timeline& timeline = Timeline::instance();
  const bool wanted = profiler::connected();
  if (timeline.watches.load(std::memory_order_relaxed) != wanted) timeline.set(wanted);
}

}  // namespace reprise::traces
