#pragma once
// From the JSON body of a request to a GenerateRequest, for POST /v1/chat/completions and /v1/completions.
//
// Fields that change nothing about the answer are accepted, known or not. A known field that would change the
// answer and is not supported is refused by its name, never ignored (protocol/openai/unsupported.h). Wrong
// types and values are refused with the field's name and the reason.
//
// What is left to whoever calls: the request's id, its name space, its tenant and priority, and the opening
// of a forced tool call.
//
// Threading: pure functions.

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/outcome.h"
#include "protocol/openai/api_error.h"
#include "protocol/openai/request_limits.h"
#include "protocol/service.h"

namespace reprise::protocol {

enum class ApiKind : std::uint8_t { kChat, kCompletion };

/// Whether the reply has to be a tool call.
struct ToolChoice {
  enum class Mode : std::uint8_t { kNone, kAuto, kRequired, kNamed } mode = Mode::kNone;
  std::string name{};  // for kNamed
};

/// How the client wants to be answered.
struct ReplyOptions {
  ApiKind kind = ApiKind::kChat;
  bool stream = false;
  bool include_usage = false;  // of a stream
  bool return_token_ids = false;
  bool logprobs = false;
  ToolChoice tool_choice{};
  std::uint32_t n = 1;  // choices of each prompt
  std::uint32_t prompts = 1;
};

struct ApiRequest {
  GenerateRequest generate;
  std::vector<Prompt> further_prompts{};  // of a completion: each is to be answered as generate.prompt is
  ReplyOptions reply{};
  std::string cache_salt{};
  std::optional<Priority> priority{};
};

Outcome<ApiRequest, ApiError> parse_api_request(ApiKind kind, std::string_view body,
                                                const RequestLimits& limits);
/// The same from a value; throws BadRequest.
ApiRequest read_chat_request(const Json& body, const RequestLimits& limits);
ApiRequest read_completion_request(const Json& body, const RequestLimits& limits);

/// A list of token ids. Throws BadRequest.
TokenList read_token_list(const Json::Array& items, const std::string& path, const RequestLimits& limits);

/// Whether token ids, of which there may be many, come on top of a body's other values.
enum class BodyHolds : std::uint8_t { kText, kTokenIds };

/// Parses a body that must be an object. Throws BadRequest.
Json parse_body(std::string_view body, const RequestLimits& limits, BodyHolds holds);

}  // namespace reprise::protocol
