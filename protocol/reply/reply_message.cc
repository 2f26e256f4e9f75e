#include "protocol/reply/reply_message.h"

#include <utility>

#include "base/check.h"

namespace reprise::protocol {
namespace {

/// Returns the text of a content part; null for other kinds of parts.
const std::string* words_of(const Json& part) {
  const std::string* type = part.find_string("type");
  if (type != nullptr && *type == "refusal") return part.find_string("refusal");
  return type == nullptr || *type == "text" ? part.find_string("text") : nullptr;
}

void join_parts(Json& content) {
  std::string text;
  for (const Json& part : content.as_array()) {
    const std::string* words = words_of(part);
    if (words == nullptr) return;
    if (&part != &content.as_array().front()) text += '\n';
    text += *words;
  }
  content = Json(std::move(text));
}

}  // namespace

void MessageBuilder::add(const ReplyPiece& piece) {
  if (const auto* content = std::get_if<ReplyContent>(&piece)) {
    content_ += content->text;
  } else if (const auto* reasoning = std::get_if<ReplyReasoning>(&piece)) {
    reasoning_ += reasoning->text;
  } else if (const auto* begin = std::get_if<ToolCallBegin>(&piece)) {
    REPRISE_CHECK(begin->index == calls_.size(), "a call's index is not the next one of its reply");
    calls_.push_back({begin->id, begin->name, {}});
  } else if (const auto* arguments = std::get_if<ToolCallArguments>(&piece)) {
    REPRISE_CHECK(arguments->index < calls_.size(), "the arguments belong to a call that has not begun");
    calls_[arguments->index].arguments += arguments->json;
  }
}

void MessageBuilder::add(const ReplyPieces& pieces) {
  for (const ReplyPiece& piece : pieces) add(piece);
}

Json MessageBuilder::message() const {
  Json message{{"role", "assistant"}};
  message["content"] = content_.empty() && has_calls() ? Json() : Json(content_);
  if (!reasoning_.empty()) message["reasoning_content"] = reasoning_;
  if (!has_calls()) return message;
  Json calls = Json::array();
  for (const Call& call : calls_) {
    Json function{{"name", call.name}, {"arguments", call.arguments}};
    calls.push_back(Json{{"id", call.id}, {"type", "function"}, {"function", std::move(function)}});
  }
  message["tool_calls"] = std::move(calls);
  return message;
}

Json assistant_message(const ReplyPieces& pieces) {
  MessageBuilder builder;
  builder.add(pieces);
  return builder.message();
}

Json template_form(Json message_or_messages, bool null_content) {
  if (message_or_messages.is_array()) {
    for (Json& message : message_or_messages.as_array()) {
      message = template_form(std::move(message), null_content);
    }
    return message_or_messages;
  }
  Json& message = message_or_messages;
  const std::string* reasoning = message.find_string("reasoning");
  if (reasoning != nullptr && message.find_string("reasoning_content") == nullptr) {
    message["reasoning_content"] = std::string(*reasoning);
  }
  Json* parts = message.find("content");
  if (parts != nullptr && parts->is_array()) join_parts(*parts);
  Json* calls = message.find("tool_calls");
  if (calls == nullptr || !calls->is_array() || calls->size() == 0) return message_or_messages;
  for (Json& call : calls->as_array()) {
    Json* function = call.find("function");
    Json* arguments = function != nullptr ? function->find("arguments") : nullptr;
    if (arguments == nullptr || !arguments->is_string()) continue;
    // Some clients send empty text for no arguments.
    auto parsed = arguments->as_string().empty() ? Json::object() : Json::parse(arguments->as_string());
    if (parsed.ok() && parsed->is_object()) *arguments = std::move(*parsed);
  }
  const Json* content = message.find("content");
  if (!null_content && (content == nullptr || content->is_null())) message["content"] = "";
  return message_or_messages;
}

}  // namespace reprise::protocol
