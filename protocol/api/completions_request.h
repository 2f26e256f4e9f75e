#pragma once
// Parses the JSON body of POST /v1/chat/completions and /v1/completions, also for llama-server's variant of
// chats.

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

struct ReplyOptions {
  TextKind kind = TextKind::kChat;
  bool include_usage = false;
  bool return_token_ids = false;
  bool logprobs = false;
  std::uint32_t n = 1;  // choices per prompt
  std::uint32_t prompts = 1;
  ApiFlavor flavor = ApiFlavor::kOpenAi;
  bool timings_per_token = false;           // llama-server: timings in every chunk
  bool verbose = false;                     // llama-server: include the prompt's text
  bool echo = false;                        // a completion's text begins with the prompt's
  std::vector<std::string> prompt_texts{};  // as sent; empty: decode the prompt's tokens
  std::uint32_t shown = 0;                  // show only the likeliest of each prompt's n choices; 0: all
};

struct TextRequest {
  ApiRequest asked;
  ReplyOptions reply{};
};

Outcome<TextRequest, Error> parse_request(TextKind kind, std::string_view body, const BodyLimits& limits,
                                          ApiFlavor flavor = ApiFlavor::kOpenAi);

// These throw BadRequest.

/// Parses one prompt or several, as texts or lists of token ids; `field` names them in errors.
std::vector<Prompt> read_prompts(const Json& given, const std::string& field, const BodyLimits& limits);
/// Reads all known fields; does not yet judge unread ones (unknown_fields_of()).
TextRequest read_text_fields(TextKind kind, const Fields& fields, const BodyLimits& limits,
                             ApiFlavor flavor = ApiFlavor::kOpenAi);
TextRequest read_text_request(TextKind kind, const Json& body, const BodyLimits& limits,
                              ApiFlavor flavor = ApiFlavor::kOpenAi);

}  // namespace reprise::protocol
