#pragma once
// The flags of engine_flags.h on a command line.
//
// Threading: the main thread.

#include <CLI/CLI.hpp>

#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

/// `flags` must outlive the command.
void add_engine_flags(CLI::App& command, EngineFlags& flags);

}  // namespace reprise::tools
