#pragma once
// What a profiler plots of a device worker: memory against its limit, who waits, tokens per second.
//
// Threading: the device worker's thread.

#include <array>
#include <cstdint>
#include <string>

#include "actors/worker/device_state.h"

namespace reprise::actors {

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
