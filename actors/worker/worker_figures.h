#pragma once
// What others see of a device worker without asking it: figures for health checks and metrics, plots of a profiler, and
// whether the step in progress hangs.
//
// StepWatch. A step counts as hung once it takes longer than the longest of: a configured floor; the weights, which a step
// reads once, at a rate that the slowest device worth using surpasses; and four times the longest step that the device has
// finished, for steps grow with the context, but none is four times as long as all before it. Only time in which the
// watcher itself was running counts: a process that was stopped, or a machine that slept, finds its steps where it left
// them.
//
// Threading: figures are written by the worker and read from any thread; relaxed throughout, since each number stands for
// itself. WorkerPlots is used on the worker's thread; StepWatch is its owner's, plain values without a clock of its own.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace reprise::actors {

struct WorkerFigures {
  std::atomic<std::uint64_t> steps{0};
  std::atomic<std::int64_t> step_began_ns{0};  // of the step in progress, steady clock; 0: none
  std::atomic<std::uint64_t> prefill_tokens{0};
  std::atomic<std::uint64_t> decode_tokens{0};
  std::atomic<std::uint64_t> prefill_step_tokens{0};  // of steps that did nothing but prefill,
  std::atomic<std::uint64_t> prefill_step_ns{0};      // and how long they took
  std::atomic<std::uint64_t> limit_bytes{0};
  std::atomic<std::uint64_t> used_bytes{0};
  std::atomic<std::uint64_t> sequences{0};
  std::atomic<std::uint64_t> snapshots{0};
  std::atomic<std::uint64_t> waiting{0};  // to be admitted
  std::atomic<std::uint64_t> checkpoints{0};
  std::atomic<std::uint64_t> checkpoints_skipped{0};  // there was no memory
  std::atomic<std::uint64_t> copied_bytes{0};         // of state, by snapshots and restores
  std::atomic<std::uint64_t> unhealthy{0};            // states that were not finite
  std::atomic<std::uint64_t> damaged{0};              // snapshots that failed their check
  std::atomic<std::uint64_t> preemptions{0};
  std::atomic<std::uint64_t> compactions{0};           // of prompts,
  std::atomic<std::uint64_t> compacted_full_bytes{0};  // whose pages had so many bytes before,
  std::atomic<std::uint64_t> compacted_kept_bytes{0};  // and so many after
  std::atomic<std::uint64_t> checkpoints_spared{0};    // memory was filling
  std::atomic<std::uint64_t> reclaims{0};              // for somebody who was short
  std::atomic<std::uint64_t> reclaims_ahead{0};        // before anybody was
  std::atomic<std::uint64_t> admission_waits{0};       // requests that came when there was no room for them
  std::atomic<std::uint64_t> admission_wait_ns{0};     // until there was
  std::atomic<std::uint64_t> most_sequences{0};        // at once
  std::atomic<std::uint64_t> faults{0};

  /// That a token of a prompt takes; 0: not known yet.
  double seconds_per_token() const {
    const std::uint64_t tokens = prefill_step_tokens.load(std::memory_order_relaxed);
    if (tokens == 0) return 0;
    return static_cast<double>(prefill_step_ns.load(std::memory_order_relaxed)) * 1e-9 /
           static_cast<double>(tokens);
  }
  bool idle() const {
    return sequences.load(std::memory_order_relaxed) == 0 && waiting.load(std::memory_order_relaxed) == 0;
  }

  static void add(std::atomic<std::uint64_t>& figure, std::uint64_t count = 1) {
    figure.fetch_add(count, std::memory_order_relaxed);
  }
  static void set(std::atomic<std::uint64_t>& figure, std::uint64_t value) {
    figure.store(value, std::memory_order_relaxed);
  }
};

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

class DeviceState;

/// What a profiler plots of a device worker: memory against its limit, who waits, tokens per second.
class WorkerPlots {
 public:
  /// `worker`: the actor's name; plots are called after it.
  explicit WorkerPlots(const std::string& worker);

  /// Where anybody looks.
  void show_memory(const DeviceState& state, std::size_t waiting);
  void step_begins();
  void step_ended(std::size_t prefilled, std::size_t decoded);

 private:
  struct Names {
    const char* used_mb;
    const char* limit_mb;
    const char* pages;
    const char* slots;
    const char* sequences;
    const char* snapshots;
    const char* waiting;
    const char* prefill_rate;
    const char* decode_rate;
    const char* decode_rows;
  };

  /// Only where it has changed.
  void plot(std::size_t which, const char* name, double value);

  Names names_;                    // live for ever
  std::array<double, 7> shown_{};  // of memory, last; while `shows_`
  bool shows_ = false;
  std::int64_t step_began_ns_ = 0;
};

}  // namespace reprise::actors
