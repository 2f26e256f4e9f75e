#include "actors/chat_template.h"

#include <memory>

#include "protocol/jinja/template.h"
#include "protocol/reply_format.h"
#include "protocol/reply_message.h"

namespace reprise::actors {

using protocol::Json;
using protocol::ServiceError;
using protocol::ServiceErrorCode;
using protocol::jinja::Template;

namespace {

// The text parts of a message's content as one text. Other parts stay: the template may know them.
void join_text_parts(Json& message) {
  Json* content = message.find("content");
  if (content == nullptr || !content->is_array()) return;
  std::string text;
  for (const Json& part : content->as_array()) {
    const std::string* type = part.find_string("type");
    const std::string* piece = part.find_string("text");
    if (piece == nullptr || (type != nullptr && *type != "text")) return;
    text += *piece;
  }
  *content = Json(std::move(text));
}

std::string token_text(const models::Tokenizer& tokenizer, std::optional<protocol::TokenId> id) {
  return id ? std::string(tokenizer.token_text(*id)) : std::string();
}

}  // namespace

protocol::Outcome<ChatRenderer, std::string> make_chat_renderer(const std::string& source,
                                                                const models::Tokenizer& tokenizer) {
  auto compiled = Template::compile(source);
  if (!compiled.ok()) return "chat template: " + compiled.error().describe();
  const auto shared = std::make_shared<const Template>(std::move(*compiled));
  const bool null_content = protocol::detect_reply_format(source).null_content;
  const Json bos = token_text(tokenizer, tokenizer.bos());
  const Json eos = token_text(tokenizer, tokenizer.eos());
  return ChatRenderer([=](const protocol::ChatPrompt& chat) -> protocol::Outcome<std::string, ServiceError> {
    Json context = Json::object();
    if (chat.template_extra.is_object()) context = chat.template_extra;
    Json messages = chat.messages;
    if (messages.is_array()) {
      for (Json& message : messages.as_array()) join_text_parts(message);
    }
    context["messages"] = protocol::template_form(std::move(messages), null_content);
    context["tools"] = chat.tools;
    context["add_generation_prompt"] = chat.add_generation_prompt;
    context["bos_token"] = bos;
    context["eos_token"] = eos;
    auto rendered = shared->render(context);
    if (rendered.ok()) return std::move(*rendered);
    return ServiceError{ServiceErrorCode::kInvalid,
                        "the chat template refused: " + rendered.error().describe(), "messages"};
  });
}

}  // namespace reprise::actors
