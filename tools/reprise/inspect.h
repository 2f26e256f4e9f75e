#pragma once
// `reprise inspect`: what a model is and what it costs.

#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

/// Prints to stdout; returns the exit status. Throws UsageError, models::LoadError.
int inspect(const EngineFlags& flags);

}  // namespace reprise::tools
