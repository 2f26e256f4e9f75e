#pragma once
// From the JSON body of POST /v1/chat/completions and /v1/completions to what it asks for. llama-server has the same chats,
// in its own manners.
//
// Threading: pure functions.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/outcome.h"
#include "protocol/api/api_error.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"
#include "protocol/api/common_fields.h"
#include "protocol/api/fields.h"

namespace reprise::protocol {

enum class TextKind : std::uint8_t { kChat, kCompletion };

/// How the client wants to be answered.
struct ReplyOptions {
  TextKind kind = TextKind::kChat;
  bool include_usage = false;  // of a stream
  bool return_token_ids = false;
  bool logprobs = false;
  std::uint32_t n = 1;  // choices of each prompt
  std::uint32_t prompts = 1;
  Manners manners = Manners::kOpenAi;
  bool timings_per_token = false;           // llama-server's, in every chunk
  bool verbose = false;                     // llama-server's: the prompt's text
  bool echo = false;                        // a completion's text begins with the prompt's,
  std::vector<std::string> prompt_texts{};  // as it was sent; empty: as its tokens read
  std::uint32_t shown = 0;                  // of each prompt's n choices the likeliest alone; 0: all
};

struct TextRequest {
  ApiRequest asked;
  ReplyOptions reply{};
};

Outcome<TextRequest, ApiError> parse_request(TextKind kind, std::string_view body, const BodyLimits& limits,
                                             Manners manners = Manners::kOpenAi);

// These throw BadRequest.

/// One prompt or several, texts or lists of token ids, in the field of that name.
std::vector<Prompt> read_prompts(const Json& given, const std::string& field, const BodyLimits& limits);
/// All that is read of such a body, before what is left of it is judged (unknown_fields_of()).
TextRequest read_text_fields(TextKind kind, const Fields& fields, const BodyLimits& limits,
                             Manners manners = Manners::kOpenAi);
/// The whole request.
TextRequest read_text_request(TextKind kind, const Json& body, const BodyLimits& limits,
                              Manners manners = Manners::kOpenAi);

}  // namespace reprise::protocol
