#pragma once
// `reprise logits`: the float32 logits after a prompt, or after each of its tokens.

#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

struct LogitsOptions {
  EngineFlags engine;
  std::string tokens;
  bool all = false;
  bool json = false;
};

/// Prints to stdout; returns the exit status. Throws UsageError, models::LoadError.
int print_logits(const LogitsOptions& options);

}  // namespace reprise::tools
