#pragma once
// llama-server's POST /completion and /infill: bodies and replies. Fields shared with OpenAI's completions
// are read by protocol/api/common_fields.h; the prompt, the token details and the reply's format are specific
// to llama-server.
//
// A whole reply is an object for one choice, and an array for several. A stream has an event per token, and
// for each choice a last one with "stop": true and everything that the whole reply has except the text.
//
// A reply belongs to one actor. Its memory grows with its length, which max_tokens and the model's context
// bound.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"
#include "protocol/api/endpoint.h"

namespace reprise::protocol::llama {

struct CompletionOptions {
  std::uint32_t n = 1;  // choices per prompt
  std::uint32_t prompts = 1;
  bool stream = false;
  bool return_tokens = false;
  bool timings_per_token = false;
  int n_probs = 0;
  bool drawn_probs = false;                    // post_sampling_probs: report "prob" instead of "logprob"
  std::vector<std::string> response_fields{};  // e.g. "content", "generation_settings/n_predict"; empty: all
  // Repeated in the reply:
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

// The readers throw BadRequest.
CompletionRequest read_completion(const Json& body, const BodyLimits& limits);
CompletionRequest read_infill(const Json& body, const BodyLimits& limits);

std::unique_ptr<Reply> whole_completion(const CompletionOptions& options);
std::unique_ptr<StreamedReply> streamed_completion(const CompletionOptions& options);

/// Returns the default settings of requests, under llama-server's names.
Json default_settings(const ModelCard& card);

}  // namespace reprise::protocol::llama
