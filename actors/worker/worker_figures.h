#pragma once
// What a device worker lets everyone see at any time, so that health checks and metrics never wait for it.
//
// Threading: written by the worker, read by anybody. Relaxed throughout: each number stands for itself.

#include <atomic>
#include <cstdint>

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

}  // namespace reprise::actors
