#pragma once
// Shared by the benchmarks: times of repetitions, snapshot times, and progress.
//
// Threading: one thread; snapshots on the thread that owns the store.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "gpu/state/state_store.h"
#include "tools/reprise/progress.h"

namespace reprise::tools {

/// Seconds of all repetitions. median() and spread() require at least one.
struct Times {
  std::vector<double> all{};

  bool empty() const { return all.empty(); }
  double median() const {
    std::vector<double> sorted = all;
    std::sort(sorted.begin(), sorted.end());
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }
  double spread() const {
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    return (*most - *least) / median();
  }
};

inline double seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Progress of a benchmark: a bar if stderr is a terminal, otherwise a line per step.
class BenchProgress {
 public:
  BenchProgress(std::string part, std::uint64_t steps)
      : part_(std::move(part)), steps_(steps), bar_(part_.c_str()) {}

  void next(const std::string& step) {
    if (!bar_.is_shown()) std::fprintf(stderr, "reprise: %s: %s\n", part_.c_str(), step.c_str());
    advance();
  }
  /// Starts a small step, without a line.
  void advance() { bar_.show(done_++, steps_); }

 private:
  const std::string part_;
  const std::uint64_t steps_;
  std::uint64_t done_ = 0;
  ProgressBar bar_;
};

/// Times to capture a snapshot, to restore it, and to copy as many bytes.
struct SnapshotTimes {
  std::size_t bytes = 0;  // per operation
  Times capture;
  Times restore;
  Times copy;

  /// Returns the time of capture and restore relative to two copies.
  double beside_copies() const { return (capture.median() + restore.median()) / (2 * copy.median()); }
};

/// Measures snapshots of `source`. Throws std::runtime_error if the state does not fit in memory.
SnapshotTimes measure_snapshots(gpu::StateStore& store, const gpu::Sequence& source, unsigned repeat);

}  // namespace reprise::tools
