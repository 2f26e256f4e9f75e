#pragma once
// The one place where `reprise serve` gets its engine from.
//
// Threading: called once, by the main thread, before the server listens.

#include <memory>

#include "protocol/service.h"
#include "runtime/system.h"
#include "tools/reprise/serve_config.h"

namespace reprise::tools {

/// Exit status of a server whose GPU is lost to it: a new process may use it. The systemd unit restarts on
/// it.
inline constexpr int kDeviceLostExit = 75;

/// Starts the engine with the configured models. May return before they are loaded: Service::health() tells.
/// Throws std::exception where a model cannot be served at all.
std::unique_ptr<protocol::Service> make_service(runtime::System& system, const ServeConfig& config);

}  // namespace reprise::tools
