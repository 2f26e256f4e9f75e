#pragma once
// The engine's options, from the configuration of `reprise serve`.
//
// Threading: the main thread, before other threads are started.

#include "actors/engine_options.h"
#include "tools/reprise/serve_config.h"

namespace reprise::tools {

/// Returns the options of the configured models, device, cache and tiers. Creates the snapshot folder and the file of
/// the sealing secret if they are missing, and logs what the folder holds. Throws UsageError; std::runtime_error if the
/// folder can be neither created nor read.
actors::EngineOptions engine_options(const ServeConfig& config);

}  // namespace reprise::tools
