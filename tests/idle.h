#pragma once
// Waiting until a system of actors has nothing to do.

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/system.h"
#include "tests/eventually.h"

namespace reprise {

/// Waits until all threads of the system were idle at one moment and `holds` was true there: two looks see them idle, and
/// no turn between the two (System::stop() tells it likewise). What waits for a timer or for another thread is idle, too.
template <class Holds>
bool eventually_idle(runtime::System& system, const Holds& holds) {
  std::vector<std::uint64_t> before;
  return eventually([&] {
    bool idle = holds();
    std::vector<std::uint64_t> now;
    for (const runtime::ExecutorPtr& executor : system.core()->executors()) {
      now.push_back(executor->activity());
      idle = idle && executor->idle();
    }
    if (!idle) now.clear();
    return std::exchange(before, now) == now && idle;
  });
}

inline bool eventually_idle(runtime::System& system) {
  return eventually_idle(system, [] { return true; });
}

}  // namespace reprise
