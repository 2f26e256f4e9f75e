#pragma once
// The bodies of llama-server's POST /completion and /infill. All that they share with OpenAI's completions is read as
// there (protocol/openai/request.h); the prompt, what is told of tokens, and the form of the reply are its own.
//
// Threading: pure functions. Both throw BadRequest.

#include <string>
#include <vector>

#include "base/json.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"

namespace reprise::protocol::llama {

/// How the client wants to be answered.
struct CompletionOptions {
  std::uint32_t n = 1;  // choices of each prompt
  std::uint32_t prompts = 1;
  bool stream = false;
  bool return_tokens = false;
  bool timings_per_token = false;
  int n_probs = 0;
  bool drawn_probs = false;                    // post_sampling_probs: "prob" in place of "logprob"
  std::vector<std::string> response_fields{};  // "content", "generation_settings/n_predict"; empty: all
  // As they were asked for, to be told again:
  std::int64_t n_predict = -1;
  bool ignore_eos = false;
  std::vector<std::string> stop{};
  std::string grammar{};
  std::vector<std::string> unknown_fields{};
};

struct CompletionRequest {
  ApiRequest asked;
  CompletionOptions reply{};
};

CompletionRequest read_completion(const Json& body, const BodyLimits& limits);
CompletionRequest read_infill(const Json& body, const BodyLimits& limits);

}  // namespace reprise::protocol::llama
