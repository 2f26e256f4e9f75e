#pragma once
// `reprise inspect`: what a model is and what it costs.

#include <cstdint>
#include <vector>

#include "base/kv_budget.h"
#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

struct InspectOptions {
  EngineFlags engine;
  double limit_gb = 0;                  // GiB of memory to plan for; 0: what the device has
  std::vector<std::uint32_t> tokens{};  // of prompts whose state is told
  KvBudget kv{};                        // that they are compacted to
};

/// Prints to stdout; returns the exit status. Throws UsageError, models::LoadError.
int inspect(const InspectOptions& options);

}  // namespace reprise::tools
