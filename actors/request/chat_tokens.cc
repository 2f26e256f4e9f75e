#include "actors/request/chat_template.h"

#include <memory>

#include "protocol/jinja/template.h"
#include "protocol/reply/reply_format.h"
#include "protocol/reply/reply_message.h"

namespace reprise::actors {

using protocol::ServiceError;
using protocol::ServiceErrorCode;
using protocol::jinja::Template;

namespace {

std::string token_text(const models::Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? std::string(tokenizer.token_text(*id)) : std::string();
}

}  // namespace

Outcome<ChatRenderer, std::string> make_chat_renderer(const std::string& source,
                                                      const models::Tokenizer& tokenizer) {
  auto compiled = Template::compile(source);
  if (!compiled.ok()) return "chat template: " + compiled.error().describe();
  const auto shared = std::make_shared<const Template>(std::move(*compiled));
  const bool null_content = protocol::detect_reply_format(source).null_content;
  const Json bos = token_text(tokenizer, tokenizer.bos());
  const Json eos = token_text(tokenizer, tokenizer.eos());
  return ChatRenderer([=](const protocol::ChatPrompt& chat) -> Outcome<std::string, ServiceError> {
    Json context = Json::object();
    if (chat.template_extra.is_object()) context = chat.template_extra;
    context["messages"] = protocol::template_form(chat.messages, null_content);
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
