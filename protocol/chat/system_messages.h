#pragma once
// Keeps system and developer messages in the middle of a conversation at their position in the prompt. Agents
// use them to announce skills, changes or remaining tokens; moving them to the beginning would change the
// beginning of every later prompt.
//
// If the template shows such a message at its position, it is passed unchanged. Otherwise it becomes user
// text within <system-reminder>: a message of its own, or a part of the previous message if a separate one
// would be rejected or would change earlier output (many templates strip reasoning before the last user
// message). Between a tool call and its results it moves after the results.
//
// The template's behavior is learned by rendering small conversations.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace reprise::protocol {

/// The operator's choice.
enum class SystemMessageMode : std::uint8_t {
  kAuto,      // as described above
  kUser,      // always as user text
  kTemplate,  // unchanged
};

/// Parses "auto", "user" or "template"; nullopt for other names.
std::optional<SystemMessageMode> system_message_mode_named(std::string_view name);

/// How a template treats messages at unusual positions.
struct SystemMessageSupport {
  bool as_given = false;
  bool shows_system = false;  // after other messages, at its position
  bool shows_developer = false;
  bool shows_first_developer = true;
  bool user_after_user = true;  // shown as two messages, with earlier output unchanged
  bool user_after_tool = true;
};

/// Renders messages without a reply's opening; nullopt if the template rejects them.
using RenderMessages = std::function<std::optional<std::string>(const Json::Array& messages)>;

SystemMessageSupport learn_system_message_support(const RenderMessages& render, SystemMessageMode choice);

/// Returns the messages, which are in template form (template_form()), changed so that this template shows
/// them.
Json arrange_system_messages(Json messages, const SystemMessageSupport& support);

}  // namespace reprise::protocol
