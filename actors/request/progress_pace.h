#pragma once
// ProgressPace decides which progress events of a prompt are sent to its client: only those with more tokens than the
// last one, and at most ten a second.
//
// Threading: a plain value.

#include <chrono>
#include <cstdint>

#include "runtime/ticks.h"

namespace reprise::actors {

class ProgressPace {
 public:
  static constexpr std::chrono::milliseconds kBetween{100};

  /// `told`: tokens that the client knows of.
  explicit ProgressPace(std::uint32_t told) : told_(told) {}

  /// True: it is to be told, and counts as told.
  bool allows(std::uint32_t processed, runtime::TimePoint now) {
    if (processed <= told_ || now < next_) return false;
    told_ = processed;
    next_ = now + kBetween;
    return true;
  }

 private:
  std::uint32_t told_;
  runtime::TimePoint next_ = runtime::TimePoint::min();
};

}  // namespace reprise::actors
