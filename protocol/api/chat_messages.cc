#include "protocol/api/chat_messages.h"

namespace reprise::protocol {
namespace {

constexpr std::size_t kNameBytes = 256;

class MessageCheck {
 public:
  explicit MessageCheck(const BodyLimits& limits) : limits_(limits), budget_(limits, "messages") {}

  /// `is_new`: the user's message that is to be answered.
  void check(Json& message, const std::string& path, bool is_new) {
    if (!message.is_object()) refuse_kind(path, "an object", message);
    const Fields fields(message, path);
    const std::string* role = fields.string("role", kNameBytes);
    if (role == nullptr) refuse_field(fields.path_of("role"), "missing", "is required");
    const bool assistant = *role == "assistant";
    if (!assistant && *role != "system" && *role != "developer" && *role != "user" && *role != "tool") {
      refuse_field(fields.path_of("role"), "invalid_value",
                   in_quotes(*role) + " is not one of system, developer, user, assistant, tool");
    }
    check_content(message.find("content"), fields, *role, is_new);
    if (assistant) check_calls(fields);
    if (fields.find("function_call") != nullptr) {
      refuse_unsupported(fields.path_of("function_call"), "is not supported; use tool_calls");
    }
    if (fields.find("audio") != nullptr) {
      refuse_unsupported(fields.path_of("audio"), "is not supported");
    }
    fields.string("tool_call_id", kNameBytes);
    fields.string("name", kNameBytes);
    for (const char* name : {"reasoning_content", "reasoning"}) {
      if (const std::string* text = fields.string(name, limits_.prompt_bytes)) count(*text);
    }
  }

 private:
  void check_content(Json* content, const Fields& fields, const std::string& role, bool is_new) {
    const std::string path = fields.path_of("content");
    if (content == nullptr || content->is_null()) {
      if (role != "assistant") refuse_field(path, "missing", "is required");
    } else if (content->is_string()) {
      count(content->as_string());
    } else if (content->is_array()) {
      const bool may_omit = !is_new && role != "system" && role != "developer";
      Json::Array& parts = content->as_array();
      for (std::size_t i = 0; i < parts.size(); ++i) check_part(parts[i], item_of(path, i), may_omit);
    } else {
      refuse_kind(path, "a string or an array of parts", *content);
    }
  }

  void check_part(Json& part, const std::string& path, bool may_omit) {
    if (!part.is_object()) refuse_kind(path, "an object", part);
    const Fields fields(part, path);
    const std::string* type = fields.string("type", kNameBytes);
    if (type == nullptr) refuse_field(fields.path_of("type"), "missing", "is required");
    const char* member = *type == "refusal" ? "refusal" : "text";
    if (*type != "text" && *type != "refusal") {
      if (may_omit) {
        part = Json{{"type", "text"}, {"text", omitted_part(*type)}};
        return;
      }
      refuse_unsupported(fields.path_of("type"), in_quotes(*type) + " is not supported, only 'text' is");
    }
    const std::string* text = fields.string(member, limits_.prompt_bytes);
    if (text == nullptr) refuse_field(fields.path_of(member), "missing", "is required");
    count(*text);
  }

  void check_calls(const Fields& fields) {
    const Json::Array* calls = fields.array("tool_calls");
    if (calls == nullptr) return;
    for (std::size_t i = 0; i < calls->size(); ++i) {
      const std::string path = item_of(fields.path_of("tool_calls"), i);
      if (!(*calls)[i].is_object()) refuse_kind(path, "an object", (*calls)[i]);
      const Fields call((*calls)[i], path);
      call.string("id", kNameBytes);
      const Json* function = call.object("function");
      if (function == nullptr) refuse_field(call.path_of("function"), "missing", "is required");
      const Fields called(*function, call.path_of("function"));
      if (called.string("name", kNameBytes) == nullptr) {
        refuse_field(called.path_of("name"), "missing", "is required");
      }
      if (const std::string* arguments = called.string("arguments", limits_.prompt_bytes)) count(*arguments);
    }
  }

  void count(const std::string& text) { budget_.count(text); }

  const BodyLimits& limits_;
  TextBudget budget_;
};

/// Returns the index of the last user message, or the number of messages if there is none or tool results
/// follow it.
std::size_t new_message(const Json::Array& messages) {
  for (std::size_t i = messages.size(); i > 0; --i) {
    const std::string* role = messages[i - 1].find_string("role");
    if (role != nullptr && *role == "user") return i - 1;
    if (role != nullptr && *role == "tool") break;
  }
  return messages.size();
}

bool is_assistants(const Json& message) {
  const std::string* role = message.find_string("role");
  return role != nullptr && *role == "assistant";
}

/// Returns the text of validated content; parts are joined as paragraphs.
std::string text_of_content(const Json& message) {
  const Json* content = message.find("content");
  if (content == nullptr || content->is_null()) return {};
  if (content->is_string()) return content->as_string();
  std::string text;
  for (const Json& part : content->as_array()) {
    const std::string* words = part.find_string("text");
    if (words == nullptr) words = part.find_string("refusal");
    if (words == nullptr) continue;
    if (!text.empty()) text += "\n\n";
    text += *words;
  }
  return text;
}

}  // namespace

void check_messages(Json::Array& messages, const BodyLimits& limits) {
  if (messages.empty()) refuse_field("messages", "invalid_value", "must not be empty");
  if (messages.size() > limits.messages) {
    refuse_field("messages", "too_many",
                 std::to_string(messages.size()) + " messages, more than " + std::to_string(limits.messages));
  }
  MessageCheck check(limits);
  const std::size_t asked = new_message(messages);
  for (std::size_t i = 0; i < messages.size(); ++i)
    check.check(messages[i], item_of("messages", i), i == asked);
}

void check_tools(const Json::Array& tools, const BodyLimits& limits) {
  if (tools.size() > limits.tools) {
    refuse_field("tools", "too_many",
                 std::to_string(tools.size()) + " tools, more than " + std::to_string(limits.tools));
  }
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string path = item_of("tools", i);
    if (!tools[i].is_object()) refuse_kind(path, "an object", tools[i]);
    const Fields tool(tools[i], path);
    const std::string* type = tool.string("type", kNameBytes);
    if (type == nullptr) refuse_field(tool.path_of("type"), "missing", "is required");
    if (*type != "function") {
      refuse_unsupported(tool.path_of("type"), in_quotes(*type) + " is not supported, only 'function' is");
    }
    const Json* function = tool.object("function");
    if (function == nullptr) refuse_field(tool.path_of("function"), "missing", "is required");
    const Fields fields(*function, tool.path_of("function"));
    const std::string* name = fields.string("name", kNameBytes);
    if (name == nullptr || name->empty()) refuse_field(fields.path_of("name"), "missing", "is required");
    fields.string("description", limits.prompt_bytes);
    fields.object("parameters");
    static_cast<void>(fields.boolean_or("strict", false));
  }
}

void read_continuation(const Fields& fields, ApiFlavor flavor, ChatPrompt& chat) {
  Json::Array& messages = chat.messages.as_array();
  const auto asked = fields.boolean("continue_final_message");
  const bool is_last = is_assistants(messages.back());
  const bool with_calls = messages.back().find("tool_calls") != nullptr;
  if (asked.value_or(false)) {
    if (fields.boolean_or("add_generation_prompt", false)) {
      refuse_field("continue_final_message", "invalid_value",
                   "does not go together with add_generation_prompt");
    }
    if (!is_last || with_calls) {
      refuse_field("continue_final_message", "invalid_value",
                   "needs a last message of the assistant, without tool calls");
    }
  } else if (flavor == ApiFlavor::kOpenAi || asked || !is_last || with_calls) {
    return;
  }
  if (messages.size() > 1 && is_assistants(messages[messages.size() - 2])) {
    refuse_field("messages", "invalid_value", "end with two messages of the assistant");
  }
  chat.reply_opening = text_of_content(messages.back());
  chat.opening_is_content = true;
  for (const char* name : {"reasoning", "reasoning_content"}) {
    if (const std::string* reasoning = messages.back().find_string(name)) chat.opening_reasoning = *reasoning;
  }
  if (chat.reply_opening.empty() && !chat.opening_reasoning.empty()) {
    refuse_field("messages", "invalid_value", "end with reasoning only: there is no content to continue");
  }
  chat.add_generation_prompt = true;
  messages.pop_back();
}

}  // namespace reprise::protocol
