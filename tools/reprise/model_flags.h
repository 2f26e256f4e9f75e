#pragma once
// The flags of engine_flags.h on a command line.
//
// Threading: the main thread.

#include <CLI/CLI.hpp>
#include <string>

#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

/// What a command's help says of --model.
inline constexpr const char* kModelHelp =
    "Model: a Hugging Face folder, a GGUF file, or hf:OWNER/MODEL[:FILE]; default: the built-in model";

/// Where no model is given, `flags` name the built-in one; parsing throws UsageError if there is none.
/// `flags` must outlive the command. `devices`: what the help says that there is.
void add_engine_flags(CLI::App& command, EngineFlags& flags,
                      const std::string& devices = "cpu, cuda:N, or auto: a GPU if there is one");

/// --adapter, for a command that computes with it.
void add_adapter_flag(CLI::App& command, EngineFlags& flags);

}  // namespace reprise::tools
