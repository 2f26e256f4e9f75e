#include "protocol/openai/continuation.h"

#include <array>
#include <ctime>

#include "protocol/api/api_error.h"

namespace reprise::protocol::openai {
namespace {

bool is_assistants(const Json& message) {
  const std::string* role = message.find_string("role");
  return role != nullptr && *role == "assistant";
}

/// Of a content that has been checked; parts are paragraphs.
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

void read_continuation(const Fields& fields, Manners manners, ChatPrompt& chat) {
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
  } else if (manners == Manners::kOpenAi || asked || !is_last || with_calls) {
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

void tell_date(Manners manners, ChatPrompt& chat) {
  if (manners != Manners::kLlamaServer) return;
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  const auto tell = [&](const char* name, const char* format) {
    if (chat.template_extra.is_object() && chat.template_extra.find(name) != nullptr) return;
    std::array<char, 64> text{};
    const std::size_t length = std::strftime(text.data(), text.size(), format, &parts);
    chat.template_extra[name] = std::string(text.data(), length);
  };
  tell("date_string", "%d %b %Y");
  tell("datetime", "%b %d %Y");
}

}  // namespace reprise::protocol::openai
