#pragma once
// Parses the JSON body of POST /v1/responses and of the related endpoints with the same fields.
//
// The input becomes the messages of a chat:
//   text                    a user message
//   message                 a message; the parts of its content are joined by line breaks
//   reasoning, message,     one assistant turn: content, reasoning_content and tool_calls of one message
//   function_call and
//   custom_tool_call
//   …_call_output           a tool message
//   compaction              a user message with the summary that this server sealed
//   compaction_trigger      only at the end: a user message that asks for a summary
// Instructions, and system or developer messages that precede all others, form one system message at the
// beginning; later ones keep their position. Content parts that are not text are refused in the user's last
// message; in history and in tool results they become a text (omitted_part()).
//
// The tools become those of a chat:
//   function   unchanged
//   custom     a function with one text parameter, `input`; a grammar in its `format` is shown to the
//              model there and constrains its output
//   namespace  each of its tools, prefixed with the namespace's name
//   others     skipped; the model does not see them
//
// The functions throw BadRequest.

#include <string>
#include <vector>

#include "base/json.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"
#include "protocol/responses/response_store.h"
#include "protocol/service.h"

namespace reprise::protocol::responses {

/// A tool under the names that the model and the client use.
struct ResponseTool {
  std::string shown{};  // as the model sees it
  std::string name{};
  std::string name_space{};  // empty: none
  bool takes_text = false;   // a custom tool
};

enum class ResponseKind : std::uint8_t {
  kResponse,
  kCompactionItem,  // the input ends with a compaction_trigger: the response is one compaction item
  kCompaction,      // /v1/responses/compact
};

struct ResponseRequest {
  ApiRequest asked;
  ResponseKind kind = ResponseKind::kResponse;
  std::vector<ResponseTool> tools{};  // as shown to the model
  Json kept{};                        // kCompaction: items returned unchanged
  Json frame = Json::object();        // request fields repeated in the response: instructions, tools, …
  Json messages{};                    // the conversation without instructions; null: do not store
  bool store = true;
  bool seals_reasoning = false;  // include has "reasoning.encrypted_content"
};

/// `kind`: kResponse or kCompaction, depending on the path.
ResponseRequest read_response_request(const Json& body, const BodyLimits& limits, ResponseStore& store,
                                      const std::string& tenant, ResponseKind kind = ResponseKind::kResponse);

// -- the input

/// Appends the input to the messages of earlier turns in `before`, in the form this function returned them.
/// The result includes ChatPrompt::blocks.
ChatPrompt read_input(const Json& input, Json before, const BodyLimits& limits);

/// Merges the instructions (may be empty) and the leading system messages into one system message.
ChatPrompt with_instructions(const std::string& instructions, ChatPrompt chat);

bool asks_for_compaction(const Json& input);
/// Appends a user message that asks for a summary, as a compaction_trigger does.
void ask_for_summary(Json& messages);

/// Encodes reasoning or a summary as an opaque text that clients keep and send back. For reasoning it
/// includes the turn's ID (protocol/sampled_turns.h).
std::string sealed_text(const std::string& text, const std::string& turn = {});

}  // namespace reprise::protocol::responses
