#pragma once
// The bodies of POST /api/chat and /api/generate.
//
// "options" are read as the same fields of OpenAI's API are (protocol/openai/request.h), with num_predict for the limit.
// What says where and how long a model is to be held (num_ctx, num_gpu, keep_alive …) changes nothing here: that is the
// operator's. What would change the answer and cannot be done (images, template, context …) is refused by name.
//
// Threading: pure functions. Both throw BadRequest.

#include <cstdint>

#include "base/json.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"

namespace reprise::protocol::ollama {

enum class OllamaKind : std::uint8_t { kChat, kGenerate };

struct OllamaRequest {
  ApiRequest asked;
  OllamaKind kind = OllamaKind::kChat;
  bool is_load = false;  // no prompt: the client wants the model to be there, and is told that it is
};

OllamaRequest read_chat(const Json& body, const BodyLimits& limits);
OllamaRequest read_generate(const Json& body, const BodyLimits& limits);

}  // namespace reprise::protocol::ollama
