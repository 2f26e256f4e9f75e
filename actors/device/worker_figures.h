#pragma once
// Figures of a device worker that any thread can read: counters for health checks and metrics, plots for a
// profiler, and a watch for hung steps.
//
// StepWatch counts a step as hung when it exceeds the longest of: a configured floor; the time to read all
// weights once at kSlowestCpu or kSlowestGpu; and four times the longest step that the device has completed,
// since steps grow with the context but not by that factor at once. A gap between two looks counts for at
// most kMaxBetween, so time in which the process or the machine was suspended does not count.
//
// Threading: WorkerFigures are written by the worker and read by any thread; relaxed throughout, since each
// number is read by itself. WorkerPlots is used on the worker's thread, StepWatch by one owner; it takes the
// time as an argument.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace reprise::actors {

struct WorkerFigures {
  std::atomic<std::uint64_t> steps{0};
  std::atomic<std::int64_t> step_began_ns{0};  // start of the step in progress, steady clock; 0: none
  std::atomic<std::uint64_t> prefill_tokens{0};
  std::atomic<std::uint64_t> decode_tokens{0};
  std::atomic<std::uint64_t> prefill_step_tokens{0};  // tokens of steps without decoding
  std::atomic<std::uint64_t> prefill_step_ns{0};      // their duration
  std::atomic<std::uint64_t> limit_bytes{0};
  std::atomic<std::uint64_t> used_bytes{0};
  std::atomic<std::uint64_t> sequences{0};
  std::atomic<std::uint64_t> snapshots{0};
  std::atomic<std::uint64_t> waiting{0};  // requests that wait for admission
  std::atomic<std::uint64_t> checkpoints{0};
  std::atomic<std::uint64_t> checkpoints_skipped{0};  // skipped for lack of memory
  std::atomic<std::uint64_t> copied_bytes{0};         // bytes of state copied by snapshots and restores
  std::atomic<std::uint64_t> unhealthy{0};            // states with non-finite values
  std::atomic<std::uint64_t> damaged{0};              // snapshots with a wrong checksum
  std::atomic<std::uint64_t> preemptions{0};
  std::atomic<std::uint64_t> compactions{0};           // compacted prompts
  std::atomic<std::uint64_t> compacted_full_bytes{0};  // their page bytes before
  std::atomic<std::uint64_t> compacted_kept_bytes{0};  // their page bytes after
  std::atomic<std::uint64_t> checkpoints_spared{0};    // skipped because memory was filling up
  std::atomic<std::uint64_t> reclaims{0};              // requested by jobs short of memory
  std::atomic<std::uint64_t> reclaims_ahead{0};        // ahead of need
  std::atomic<std::uint64_t> admission_waits{0};       // requests that waited for memory
  std::atomic<std::uint64_t> admission_wait_ns{0};     // their total wait
  std::atomic<std::uint64_t> max_sequences{0};         // maximum open at once
  std::atomic<std::uint64_t> faults{0};

  /// Returns the prefill time per token in seconds; 0 if not known yet.
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
  std::uint64_t weight_bytes = 0;  // largest model
  bool on_gpu = false;
};

/// Returns how long a step may take if the longest completed one took `longest`.
constexpr std::chrono::nanoseconds max_step(const StepPatience& patience, std::chrono::nanoseconds longest) {
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
  /// Records an observation at time `now`. `began` is the start of the step in progress, 0 for none; any
  /// value that differs between steps will do. Observations should be more frequent than kMaxBetween.
  void look(std::int64_t began, std::chrono::nanoseconds now) {
    if (began != began_) {
      if (began_ != 0) longest_ = std::max(longest_, seen_);
      began_ = began;
      seen_ = {};
    } else if (began != 0) {
      seen_ += std::min(now - last_look_, kMaxBetween);
    }
    last_look_ = now;
  }

  /// Returns the observed duration of the step in progress.
  std::chrono::nanoseconds seen() const { return seen_; }
  /// Returns the longest observed duration of a completed step.
  std::chrono::nanoseconds longest() const { return longest_; }
  bool hangs(const StepPatience& patience) const {
    return began_ != 0 && seen_ > max_step(patience, longest_);
  }
  /// Forgets all observations, for a replacement device.
  void forget() { *this = {}; }

  static constexpr std::chrono::nanoseconds kMaxBetween = std::chrono::seconds(1);

 private:
  std::int64_t began_ = 0;
  std::chrono::nanoseconds last_look_{};
  std::chrono::nanoseconds seen_{};
  std::chrono::nanoseconds longest_{};
};

class DeviceState;

/// Plots for a profiler: memory and its limit, waiting requests, tokens per second.
class WorkerPlots {
 public:
  /// `worker` is the name of the actor and prefixes the plots.
  explicit WorkerPlots(const std::string& worker);

  /// Plots the memory if a profiler is connected.
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

  /// Plots the value if it has changed.
  void plot(std::size_t which, const char* name, double value);

  Names names_;                    // strings never freed
  std::array<double, 7> shown_{};  // last plotted values; valid while shows_ is set
  bool shows_ = false;
  std::int64_t step_began_ns_ = 0;
};

}  // namespace reprise::actors
