#pragma once
// What the benchmarks share: the times of their repetitions, those of snapshots, and how far a long one is.
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

#include "gpu/state_store.h"
#include "tools/reprise/progress.h"

namespace reprise::tools {

/// Seconds of every repetition. median() and spread() need at least one.
struct Times {
  std::vector<double> all{};

  bool empty() const { return all.empty(); }
  double median() const {
    std::vector<double> sorted = all;
    std::sort(sorted.begin(), sorted.end());
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }
  /// Slowest minus fastest, as a share of the median.
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

/// How far a long benchmark is: a bar where stderr is a terminal, a line for each step elsewhere.
class BenchProgress {
 public:
  BenchProgress(std::string part, std::uint64_t steps)
      : part_(std::move(part)), steps_(steps), bar_(part_.c_str()) {}

  /// The next step begins.
  void next(const std::string& step) {
    if (!bar_.is_shown()) std::fprintf(stderr, "reprise: %s: %s\n", part_.c_str(), step.c_str());
    advance();
  }
  /// The same of many small steps, which have no lines.
  void advance() { bar_.show(done_++, steps_); }

 private:
  const std::string part_;
  const std::uint64_t steps_;
  std::uint64_t done_ = 0;
  ProgressBar bar_;
};

/// How long a snapshot of a sequence takes, its restoration, and a plain copy of as many bytes.
struct SnapshotTimes {
  std::size_t bytes = 0;  // that one of the three moves
  Times capture;
  Times restore;
  Times copy;

  /// Snapshot and restoration together, beside two copies.
  double beside_copies() const { return (capture.median() + restore.median()) / (2 * copy.median()); }
};

/// Of the sequence as it stands. Throws std::runtime_error when the state does not fit the memory.
SnapshotTimes measure_snapshots(gpu::StateStore& store, const gpu::Sequence& source, unsigned repeat);

}  // namespace reprise::tools
