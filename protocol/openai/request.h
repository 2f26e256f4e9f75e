#pragma once
// From the JSON body of a request to what it asks for, for POST /v1/chat/completions and /v1/completions.
//
// A field that is not read is refused by name, reported in the answer, or ignored for a reason that is stated
// (protocol/api/field_rules.h). Wrong types and values are refused with the field's name and the reason.
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
#include "protocol/api/fields.h"

namespace reprise::protocol::openai {

enum class TextKind : std::uint8_t { kChat, kCompletion };

/// Whose habits count where OpenAI's fields leave a choice. llama-server takes any model's name where it serves one,
/// goes on from an assistant's message that stands last, draws a seed for -1, and adds figures of its own to replies.
/// Anthropic's API has its own names for what ends a reply.
enum class Manners : std::uint8_t { kOpenAi, kLlamaServer, kAnthropic };

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
/// Strings that end a reply, in the field of that name: one or several; throws BadRequest.
std::vector<std::string> read_stop(const Fields& fields, const std::string& name, const BodyLimits& limits);
/// One prompt or several, texts or lists of token ids, in the field of that name; throws BadRequest.
std::vector<Prompt> read_prompts(const Json& given, const std::string& field, const BodyLimits& limits);
/// All that is read of such a body, before what is left of it is judged (unknown_fields_of()); throw BadRequest.
TextRequest read_chat(const Fields& fields, const BodyLimits& limits, Manners manners = Manners::kOpenAi);
TextRequest read_completion(const Fields& fields, const BodyLimits& limits);
/// The whole request; throw BadRequest.
TextRequest read_chat_request(const Json& body, const BodyLimits& limits, Manners manners = Manners::kOpenAi);
TextRequest read_completion_request(const Json& body, const BodyLimits& limits);
/// What every request may say: the model, the cache, the priority, what is reported. Throws BadRequest.
void read_basics(const Fields& fields, const BodyLimits& limits, ApiRequest& asked);
/// llama-server's return_progress and timings_per_token. Throws BadRequest.
void read_progress(const Fields& fields, ApiRequest& asked, bool& timings_per_token);
/// All but the prompt and what becomes of it: for APIs with the same fields. Throws BadRequest.
TextRequest read_common(const Fields& fields, const BodyLimits& limits, Manners manners);

}  // namespace reprise::protocol::openai
