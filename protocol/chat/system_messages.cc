#include "protocol/chat/system_messages.h"

#include <utility>

namespace reprise::protocol {
namespace {

constexpr const char* kProbeText = "q7x9z";  // occurs in no template

Json message(const char* role, std::string text) {
  return Json{{"role", role}, {"content", std::move(text)}};
}

/// Renders conversations with the same beginning.
class Probe {
 public:
  explicit Probe(const RenderMessages& render) : render_(render) {
    if (render_({message("system", "s"), message("user", "a")})) lead_.push_back(message("system", "s"));
  }

  /// Returns whether a probe message is shown after `before`, with the output for `before` unchanged, and is
  /// still shown once `after` follows.
  bool shows(Json::Array before, Json::Array after, const char* role) const {
    const std::optional<std::string> without = rendered(before);
    if (!without) return false;
    before.push_back(message(role, kProbeText));
    const std::optional<std::string> with = rendered(before);
    if (!with || !with->starts_with(*without) || with->find(kProbeText, without->size()) == std::string::npos)
      return false;
    if (after.empty()) return true;
    before.insert(before.end(), after.begin(), after.end());
    const std::optional<std::string> longer = rendered(before);
    return longer && longer->starts_with(*with);
  }
  bool renders(const Json::Array& messages) const { return rendered(messages).has_value(); }

 private:
  std::optional<std::string> rendered(const Json::Array& messages) const {
    Json::Array all = lead_;
    all.insert(all.end(), messages.begin(), messages.end());
    return render_(all);
  }

  const RenderMessages& render_;
  Json::Array lead_;  // a system message, if the template accepts one
};

/// Returns a call with reasoning, and its result.
Json::Array tool_loop() {
  Json function{{"name", "f"}, {"arguments", Json{{"a", "b"}}}};
  Json calls = Json::array();
  calls.push_back(Json{{"id", "call00001"}, {"type", "function"}, {"function", std::move(function)}});
  Json call = message("assistant", "");
  call["reasoning_content"] = "r";
  call["tool_calls"] = std::move(calls);
  Json result = message("tool", "t");
  result["tool_call_id"] = "call00001";
  result["name"] = "f";
  return {message("user", "a"), std::move(call), std::move(result)};
}

bool is_system(const std::string& role) {
  return role == "system" || role == "developer";
}

/// Processes messages in order and puts each where the template shows it.
class SystemMessageArranger {
 public:
  explicit SystemMessageArranger(const SystemMessageSupport& support) : support_(support) {}

  void add(Json given) {
    const std::string* role = given.find_string("role");
    if (role == nullptr) return push(std::move(given));
    if (is_system(*role)) {
      if (begins_) return begin(std::move(given));
      return late_.push_back(std::move(given));
    }
    begins_ = false;
    // Tool results directly follow their call.
    if (*role != "tool") flush();
    if (*role == "user" && reminded_ && !support_.user_after_user) {
      if (const std::string* text = given.find_string("content")) return append(*text);
    }
    push(std::move(given));
  }
  Json take() {
    flush();
    return std::move(out_);
  }

 private:
  /// Adds a message before any user or assistant message. Merges it with the first for templates that show
  /// only one system message.
  void begin(Json given) {
    if (out_.size() > 0 && !support_.shows_system) {
      Json* text = out_.as_array().front().find("content");
      if (text != nullptr && text->is_string()) {
        text->as_string() += "\n\n" + text_of(given);
        return;
      }
    }
    const bool shown = out_.size() == 0 ? support_.shows_first_developer : support_.shows_developer;
    if (!shown) given["role"] = "system";
    push(std::move(given));
  }

  void flush() {
    for (Json& each : std::exchange(late_, {})) {
      const bool is_developer = *each.find_string("role") == "developer";
      if (is_developer ? support_.shows_developer : support_.shows_system) {
        push(std::move(each));
      } else if (support_.shows_system) {
        each["role"] = "system";
        push(std::move(each));
      } else {
        remind(text_of(each));
      }
    }
  }

  void remind(const std::string& text) {
    const std::string reminder = "<system-reminder>\n" + text + "\n</system-reminder>";
    const Json* last = out_.size() == 0 ? nullptr : &out_.as_array().back();
    const std::string* role = last == nullptr ? nullptr : last->find_string("role");
    const bool joins =
        role != nullptr && last->find_string("content") != nullptr &&
        ((*role == "user" && !support_.user_after_user) || (*role == "tool" && !support_.user_after_tool));
    if (joins) {
      append(reminder);
    } else {
      push(message("user", reminder));
    }
    reminded_ = true;
  }

  static std::string text_of(const Json& given) {
    const std::string* text = given.find_string("content");
    return text == nullptr ? std::string() : *text;
  }
  void append(const std::string& text) { out_.as_array().back().find("content")->as_string() += "\n" + text; }
  void push(Json given) {
    out_.push_back(std::move(given));
    reminded_ = false;
  }

  const SystemMessageSupport& support_;
  Json out_ = Json::array();
  Json::Array late_;       // messages since the last position that no tool result can follow
  bool begins_ = true;     // only system messages so far
  bool reminded_ = false;  // the last message is a reminder, or ends with one
};

}  // namespace

std::optional<SystemMessageMode> system_message_mode_named(std::string_view name) {
  if (name == "auto") return SystemMessageMode::kAuto;
  if (name == "user") return SystemMessageMode::kUser;
  if (name == "template") return SystemMessageMode::kTemplate;
  return std::nullopt;
}

SystemMessageSupport learn_system_message_support(const RenderMessages& render, SystemMessageMode choice) {
  if (choice == SystemMessageMode::kTemplate) return {.as_given = true};
  const Probe probe(render);
  const Json::Array asked{message("user", "a")};
  const Json::Array answered{message("assistant", "b"), message("user", "c")};
  const Json::Array called = tool_loop();
  const bool has_tools = probe.renders(called);
  const auto shows = [&](const char* role) {
    return choice == SystemMessageMode::kAuto && probe.shows(asked, answered, role) &&
           (!has_tools || probe.shows(called, {message("assistant", "b")}, role));
  };
  SystemMessageSupport support;
  support.shows_system = shows("system");
  support.shows_developer = shows("developer");
  const auto first = render({message("developer", kProbeText), message("user", "a")});
  support.shows_first_developer = first && first->find(kProbeText) != std::string::npos;
  support.user_after_user = probe.shows(asked, answered, "user");
  support.user_after_tool = probe.shows(called, {}, "user");
  return support;
}

Json arrange_system_messages(Json messages, const SystemMessageSupport& support) {
  if (support.as_given || !messages.is_array()) return messages;
  SystemMessageArranger arranger(support);
  for (Json& each : messages.as_array()) arranger.add(std::move(each));
  return arranger.take();
}

}  // namespace reprise::protocol
