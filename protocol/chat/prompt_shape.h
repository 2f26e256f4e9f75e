#pragma once
// Where messages begin in a rendered prompt, by tokens alone.
//
// Only special tokens are stable cuts: text on either side of them is tokenised apart. A chat template opens
// every message with one (<|im_start|>, <|start_header_id|>, <start_of_turn> ...), and what follows up to the
// message's own text tells a user's message from others. Both are learnt by rendering a small conversation
// twice with different texts (learn_shape); no template is known by name.
//
// Threading: a plain value; pure functions.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/token.h"

namespace reprise::protocol {

struct PromptShape {
  TokenId opener = -1;             // begins every message; -1: not known
  std::vector<TokenId> user_role;  // what follows it in a user's message
  bool known() const { return opener >= 0; }
};

/// Messages of a conversation that a template can render: user, assistant, user, ...
using RenderProbe = std::function<std::optional<std::vector<TokenId>>(const std::vector<const char*>& texts)>;

/// Nothing is known if the template does not render, or opens messages with no special token.
PromptShape learn_shape(const RenderProbe& render, const std::function<bool(TokenId)>& is_special);

struct MessageBorders {
  std::optional<std::uint32_t> first_user;       // just past the opener of the first user message
  std::optional<std::uint32_t> last_user;        // of the last
  std::optional<std::uint32_t> after_last_user;  // just past the opener that follows it
  std::optional<std::uint32_t> last_opener;      // just past the last opener of all
  bool behind_tool = false;                      // a result of a tool stands before that; not seen in tokens
};

MessageBorders find_borders(const PromptShape& shape, std::span<const TokenId> prompt);

}  // namespace reprise::protocol
