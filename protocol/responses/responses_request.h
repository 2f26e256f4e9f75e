#pragma once
// From the JSON body of POST /v1/responses, and of those beside it that take the same, to what it asks for.
//
// Fields that change nothing about the answer are accepted, and named in it where they are not known; one that would and is
// not supported is refused by its name.
//
// The input becomes the messages of a chat that templates know:
//   a text                  a user's message
//   message                 a message; parts of its content become one text, with a line break between two
//   reasoning, message,     what an assistant said in one turn: content, reasoning_content and tool_calls of one message
//   function_call and
//   custom_tool_call
//   …_call_output           a tool message
//   compaction              a user's message with the summary that this server had sealed
//   compaction_trigger      at the end alone: a user's message that asks for a summary
// Instructions, and what a system or a developer says before anybody else, are one system message at the beginning;
// what they say later keeps its position. Parts of content that are no text are refused in the user's last message; in
// history and in results they become a text (omitted_part()).
//
// The tools become those of a chat:
//   function   as it is
//   custom     a function with one parameter, `input`, a text; a grammar of its `format` is shown to the model there, and
//              holds for what the model writes
//   namespace  each of its tools, with the namespace's name before its own
//   others     skipped: the model is not told of them
//
// Threading: pure functions, which throw BadRequest, but for the store that is read.

#include <string>
#include <vector>

#include "base/json.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"
#include "protocol/responses/response_store.h"
#include "protocol/service.h"

namespace reprise::protocol::responses {

/// A tool, and by which name the client knows it.
struct ResponseTool {
  std::string shown{};  // its name to the model
  std::string name{};
  std::string name_space{};  // empty: none
  bool takes_text = false;   // it is a custom tool
};

enum class ResponseKind : std::uint8_t {
  kResponse,
  kCompactionItem,  // the input ends with a compaction_trigger: the response is one compaction item
  kCompaction,      // of /v1/responses/compact
};

struct ResponseRequest {
  ApiRequest asked;
  ResponseKind kind = ResponseKind::kResponse;
  std::vector<ResponseTool> tools{};  // that the model is told of
  Json kept{};                        // kCompaction: items that stay as they are
  Json frame = Json::object();        // what the response repeats of the request: instructions, tools, …
  Json messages{};  // of the conversation, without instructions; null: nobody wants them later
  bool store = true;
  bool seals_reasoning = false;  // include has "reasoning.encrypted_content"
};

/// `kind`: kResponse or kCompaction, by the path.
ResponseRequest read_response_request(const Json& body, const BodyLimits& limits, ResponseStore& store,
                                      const std::string& tenant, ResponseKind kind = ResponseKind::kResponse);

// -- the input

/// The messages, with ChatPrompt::blocks. `before`: messages of earlier turns, as this gave them. What the input says goes
/// behind them.
ChatPrompt read_input(const Json& input, Json before, const BodyLimits& limits);

/// With the instructions, which may be empty.
ChatPrompt with_instructions(const std::string& instructions, ChatPrompt chat);

/// Whether the input ends with a compaction_trigger.
bool asks_for_compaction(const Json& input);
/// Asks for a summary of the conversation, as a compaction_trigger does.
void ask_for_summary(Json& messages);

/// What clients keep of reasoning and of summaries, and send back: opaque to them. Of reasoning it names the turn as well
/// (protocol/sampled_turns.h).
std::string sealed_text(const std::string& text, const std::string& turn = {});

}  // namespace reprise::protocol::responses
