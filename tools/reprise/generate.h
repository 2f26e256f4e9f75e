#pragma once
// `reprise generate`: one prompt, one continuation, no actors and no HTTP.

#include <optional>
#include <string>

#include "base/sampling.h"
#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

struct GenerateOptions {
  EngineFlags engine;
  std::optional<std::string> prompt;  // text; needs a tokenizer
  std::optional<std::string> tokens;  // token ids, used as they are
  bool chat = false;                  // the prompt is what a user says, in the model's chat template
  std::string system{};               // of such a chat; empty: none
  std::size_t max_tokens = 128;
  SamplingParams sampling{};
  std::vector<std::string> stop{};
  bool ignore_eos = false;
  bool json = false;
};

/// Prints the text (or the ids, where there is no tokenizer) as it comes, or one JSON object; returns the
/// exit status. Throws UsageError, models::LoadError.
int generate(const GenerateOptions& options);

}  // namespace reprise::tools
