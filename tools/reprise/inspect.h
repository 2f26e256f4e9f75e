#pragma once
// `reprise inspect`: what a model is and what it costs.

#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

struct InspectOptions {
  EngineFlags engine;
  double limit_gb = 0;  // GiB of memory to plan for; 0: what the device has
};

/// Prints to stdout; returns the exit status. Throws UsageError, models::LoadError.
int inspect(const InspectOptions& options);

}  // namespace reprise::tools
