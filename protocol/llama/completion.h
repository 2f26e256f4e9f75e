#pragma once
// llama-server's POST /completion and /infill: their bodies and their replies. All that the bodies share with OpenAI's
// completions is read as there (protocol/api/common_fields.h); the prompt, what is told of tokens, and the form of the reply
// are its own.
//
// A reply is one object for each choice, or a stream of small ones. A stream has an event for each token, and for each choice
// a last one with "stop": true and all that the whole reply has beside the text. Of a whole reply one choice is an object,
// and several are an array.
//
// Threading: pure functions; replies are one actor's. Their memory grows with the reply, which max_tokens and the model's
// context bound.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"
#include "protocol/api/endpoint.h"

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

// These throw BadRequest.
CompletionRequest read_completion(const Json& body, const BodyLimits& limits);
CompletionRequest read_infill(const Json& body, const BodyLimits& limits);

std::unique_ptr<Reply> whole_completion(const CompletionOptions& options);
std::unique_ptr<StreamedReply> streamed_completion(const CompletionOptions& options);

/// The settings of requests that say nothing, with the names that llama-server has for them.
Json default_settings(const ModelCard& card);

}  // namespace reprise::protocol::llama
