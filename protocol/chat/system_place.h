#pragma once
// What a system or a developer says after the conversation has begun, and how it keeps its position in the prompt. Agents
// tell models that way which skills there are, what has changed, how many tokens are left. Moving it to the beginning would
// change the beginning of every later prompt.
//
// A template that shows such a message at its position gets it as it is. For any other template, which refuses it, drops it
// or moves it, it becomes the user's, within <system-reminder>: a message of its own, or a part of the message before it
// where a message of its own would be refused or would change what is shown before it (many templates strip reasoning before
// the last user message). Between a tool call and its results it moves behind the results.
//
// What a template does is learned by rendering small conversations; no template is known by name.
//
// Threading: plain values and pure functions.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace reprise::protocol {

/// The operator's choice.
enum class SystemInPlace : std::uint8_t {
  kAuto,      // as above
  kUser,      // as the user's, whatever the template shows
  kTemplate,  // messages go to the template as they came
};

/// "auto", "user" or "template"; nullopt for other names.
std::optional<SystemInPlace> system_in_place_named(std::string_view name);

/// What a template does with messages that are not where it expects them.
struct SystemPlaces {
  bool as_given = false;
  bool shows_system = false;  // after other messages, at its position
  bool shows_developer = false;
  bool shows_first_developer = true;
  bool user_after_user = true;  // shown as two messages, with nothing before them changed
  bool user_after_tool = true;
};

/// The messages' text without a reply's opening; nullopt where the template refuses them.
using RenderMessages = std::function<std::optional<std::string>(const Json::Array& messages)>;

SystemPlaces learn_system_places(const RenderMessages& render, SystemInPlace choice);

/// Messages in the form that templates expect (template_form()), as this template can show them.
Json place_system_messages(Json messages, const SystemPlaces& places);

}  // namespace reprise::protocol
