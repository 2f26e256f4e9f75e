#pragma once
// The tools of a request of Responses as a chat has them, and by which names the client knows them.
//
//   function   as it is
//   custom     a function with one parameter, `input`, a text; a grammar of its `format` is shown to the model there, and
//              holds for what the model writes
//   namespace  each of its tools, with the namespace's name before its own
//   others     skipped: the model is not told of them
//
// Threading: plain values and pure functions; those that read throw BadRequest.

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"
#include "protocol/api/fields.h"

namespace reprise::protocol::responses {

struct ResponseTool {
  std::string shown{};  // its name to the model
  std::string name{};
  std::string name_space{};  // empty: none
  bool takes_text = false;   // it is a custom tool
};

struct ResponseTools {
  Json functions{};  // as chats have them; null: there are none
  std::vector<TextTool> texts{};
  std::vector<ResponseTool> all{};
};

/// The name that the model knows a namespace's tool by.
std::string shown_name(std::string_view name_space, std::string_view name);

/// Arguments of a custom tool's call, from its text.
std::string arguments_of(const std::string& input);

ResponseTools read_tools(const Fields& fields, const BodyLimits& limits);
ToolChoice read_tool_choice(const Fields& fields, const ResponseTools& tools);

}  // namespace reprise::protocol::responses
