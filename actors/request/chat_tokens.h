#pragma once
// A model's chat template, ready to render conversations as clients send them.
//
// Threading: the renderer may be called from any thread.

#include <functional>
#include <string>

#include "base/outcome.h"
#include "models/text/tokenizer.h"
#include "protocol/service.h"

namespace reprise::actors {

using ChatRenderer = std::function<Outcome<std::string, protocol::ServiceError>(const protocol::ChatPrompt&)>;

/// Content that is an array of text parts becomes one text, and arguments of tool calls objects: what
/// templates expect. An error names what is wrong with the template.
Outcome<ChatRenderer, std::string> make_chat_renderer(const std::string& source,
                                                      const models::Tokenizer& tokenizer);

}  // namespace reprise::actors
