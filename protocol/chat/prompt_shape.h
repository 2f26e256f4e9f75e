#pragma once
// Finds message boundaries in the tokens of a rendered prompt.
//
// Only special tokens are stable cuts, because text on either side of them is tokenized separately. Chat
// templates open every message with one (<|im_start|>, <|start_header_id|>, <start_of_turn> ...), and the
// following tokens identify the role. learn_shape() finds both by rendering a small conversation twice with
// different texts.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/token.h"

namespace reprise::protocol {

struct PromptShape {
  TokenId opener = -1;             // opens every message; -1: unknown
  std::vector<TokenId> user_role;  // tokens that follow it in a user message
  bool known() const { return opener >= 0; }
};

/// Renders a conversation of user, assistant, user, ... and returns its tokens; nothing if the template
/// fails.
using RenderProbe = std::function<std::optional<std::vector<TokenId>>(const std::vector<const char*>& texts)>;

/// The shape is unknown if the template fails or opens messages without a special token.
PromptShape learn_shape(const RenderProbe& render, const std::function<bool(TokenId)>& is_special);

struct MessageBorders {
  std::optional<std::uint32_t> first_user;       // after the opener of the first user message
  std::optional<std::uint32_t> last_user;        // after the opener of the last user message
  std::optional<std::uint32_t> after_last_user;  // after the next opener
  std::optional<std::uint32_t> last_opener;      // after the last opener of any message
  bool after_tool = false;  // a tool result precedes it; set by callers, not visible in tokens
};

MessageBorders find_borders(const PromptShape& shape, std::span<const TokenId> prompt);

}  // namespace reprise::protocol
