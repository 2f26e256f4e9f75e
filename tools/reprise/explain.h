#pragma once
// `reprise explain`: where the prompts of two requests part, in tokens and in words.

#include <string>
#include <vector>

namespace reprise::tools {

struct ExplainOptions {
  std::string model;   // its tokenizer and chat template; weights are not read
  std::string path{};  // of the API that the requests are for; empty: told from what they hold
  std::vector<std::string> requests{};  // two files with JSON bodies
};

/// Prints to stdout; returns the exit status. Throws UsageError, models::LoadError.
int explain(const ExplainOptions& options);

}  // namespace reprise::tools
