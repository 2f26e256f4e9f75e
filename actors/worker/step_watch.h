#pragma once
// StepWatch: tells a step that takes long from a device that hangs.
//
// A hang is a step that goes on for far longer than its work explains. What its work explains is known from
// three sides, and the longest counts: a floor that is configured; the weights, which a step reads once, at a
// rate that the slowest device worth using surpasses; and the longest step that the device has finished, for
// steps grow with the context, but none is four times as long as all before it.
//
// Only time in which the watcher itself was running counts: a process that was stopped, or a machine that
// slept, finds its steps where it left them.
//
// Threading: its owner's; plain values, no clock of its own.

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace reprise::actors {

struct StepPatience {
  std::chrono::milliseconds floor{120'000};
  std::uint64_t weight_bytes = 0;  // of the largest model
  bool on_gpu = false;
};

/// How long a step may take where the longest so far took `longest`.
constexpr std::chrono::nanoseconds longest_step(const StepPatience& patience,
                                                std::chrono::nanoseconds longest) {
  // A step of 256 rows reads every weight once and uses it 256 times. 20 MB/s is a 27B model in bf16 on a CPU
  // of 5 Gflop/s, and twenty times slower than a disk from which weights that do not fit memory are read.
  constexpr std::uint64_t kSlowestCpu = 20'000'000;
  constexpr std::uint64_t kSlowestGpu = 1'000'000'000;
  constexpr int kGrowth = 4;
  const std::uint64_t rate = patience.on_gpu ? kSlowestGpu : kSlowestCpu;
  const std::chrono::seconds by_weights(patience.weight_bytes / rate);
  return std::max<std::chrono::nanoseconds>({patience.floor, by_weights, kGrowth * longest});
}

class StepWatch {
 public:
  /// A look at the device: when its step began, 0 for none; any value that is another for every step will do.
  /// Looks are to be more frequent than kMostBetween.
  void look(std::int64_t began, std::chrono::nanoseconds now) {
    if (began != began_) {
      if (began_ != 0) longest_ = std::max(longest_, seen_);
      began_ = began;
      seen_ = {};
    } else if (began != 0) {
      seen_ += std::min(now - last_look_, kMostBetween);
    }
    last_look_ = now;
  }

  /// Of the step in progress, as far as it was seen.
  std::chrono::nanoseconds seen() const { return seen_; }
  /// Of those that ended.
  std::chrono::nanoseconds longest() const { return longest_; }
  bool hangs(const StepPatience& patience) const {
    return began_ != 0 && seen_ > longest_step(patience, longest_);
  }
  /// What was measured of one device says nothing about its successor.
  void forget() { *this = {}; }

  static constexpr std::chrono::nanoseconds kMostBetween = std::chrono::seconds(1);

 private:
  std::int64_t began_ = 0;
  std::chrono::nanoseconds last_look_{};
  std::chrono::nanoseconds seen_{};
  std::chrono::nanoseconds longest_{};
};

}  // namespace reprise::actors
