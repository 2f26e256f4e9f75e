#pragma once
// `reprise chat`: a conversation in the terminal, with a model in the same process or, with --url, on a server.
//
// Lines come from stdin, a pipe as well; replies go to stdout as they are made, everything else to stderr.
// Reasoning is shown dimmed where stdout is a terminal, and left out elsewhere. Ctrl-C ends a reply that is
// being made, which stays in the conversation as far as it came; at the prompt it throws the line away, or, in an empty
// one, ends the program, as Ctrl-D does.
//
// Threading: the main thread, before any other was started: SIGINT is blocked for all threads to come.

#include <cstdint>
#include <optional>
#include <string>

#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

struct ChatOptions {
  EngineFlags engine;
  std::string system{};
  std::optional<double> temperature{};  // none: the model's own
  std::optional<double> top_p{};
  std::optional<std::uint64_t> seed{};
  std::uint32_t max_tokens = 2048;
  bool no_think = false;
  bool no_cache = false;
  std::string url{};      // of a server; empty: none, and engine.model is loaded. Else that is a name there
  std::string api_key{};  // for the server
};

/// Returns the exit status: 1 if a reply failed, 2 where the model cannot chat. Throws UsageError.
int chat(const ChatOptions& options);

}  // namespace reprise::tools
