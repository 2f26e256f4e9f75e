#pragma once
// From the JSON body of a request to what it asks for, for POST /v1/chat/completions and /v1/completions.
//
// Fields that change nothing about the answer are accepted, known or not. A known field that would change the
// answer and is not supported is refused by its name, never ignored (protocol/openai/unsupported.h). Wrong
// types and values are refused with the field's name and the reason.
//
// Threading: pure functions.

#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "base/outcome.h"
#include "protocol/api/api_error.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"

namespace reprise::protocol::openai {

enum class TextKind : std::uint8_t { kChat, kCompletion };

/// How the client wants to be answered.
struct ReplyOptions {
  TextKind kind = TextKind::kChat;
  bool include_usage = false;  // of a stream
  bool return_token_ids = false;
  bool logprobs = false;
  std::uint32_t n = 1;  // choices of each prompt
  std::uint32_t prompts = 1;
};

struct TextRequest {
  ApiRequest asked;
  ReplyOptions reply{};
};

Outcome<TextRequest, ApiError> parse_request(TextKind kind, std::string_view body, const BodyLimits& limits);
/// The same from a value; throw BadRequest.
TextRequest read_chat_request(const Json& body, const BodyLimits& limits);
TextRequest read_completion_request(const Json& body, const BodyLimits& limits);

}  // namespace reprise::protocol::openai
