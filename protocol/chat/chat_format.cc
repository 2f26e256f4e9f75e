#include "protocol/chat/chat_format.h"

#include <algorithm>

#include "protocol/reply/reply_message.h"

namespace reprise::protocol {
namespace {

/// Whatever reasoning is open, or was given, ends here.
void close_reasoning(const ReplyFormat& format, const std::string& reasoning, std::string& prompt) {
  const bool open = format.has_reasoning() && opens_thinking(format, prompt);
  if (!open && (reasoning.empty() || !format.has_reasoning())) return;
  if (!open) prompt += format.think_open + "\n";
  if (!reasoning.empty()) prompt += reasoning + "\n";
  prompt += format.think_close + "\n\n";
}

PromptShape shape_of(const ChatFormat& format, const ChatFormat::Tokens& tokens) {
  if (!tokens.encode || !tokens.is_special) return {};
  const auto probe = [&](const std::vector<const char*>& texts) -> std::optional<TokenList> {
    ChatPrompt chat{.messages = Json::array(), .add_generation_prompt = false};
    for (std::size_t i = 0; i < texts.size(); ++i) {
      chat.messages.push_back(Json{{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", texts[i]}});
    }
    const auto rendered = format.render(chat);
    if (!rendered.ok()) return std::nullopt;
    return tokens.encode(*rendered);
  };
  return learn_shape(probe, tokens.is_special);
}

}  // namespace

Outcome<std::shared_ptr<const ChatFormat>, std::string> ChatFormat::make(std::string source, Tokens tokens,
                                                                         std::optional<bool> thinking,
                                                                         SystemInPlace system) {
  auto compiled = jinja::Template::compile(source);
  if (!compiled.ok()) return "chat template: " + compiled.error().describe();
  return std::shared_ptr<const ChatFormat>(
      new ChatFormat(std::move(source), std::move(*compiled), std::move(tokens), thinking, system));
}

// The shape is learnt last: that renders with all that stands before it.
ChatFormat::ChatFormat(std::string source, jinja::Template compiled, Tokens tokens,
                       std::optional<bool> thinking, SystemInPlace system)
    : source_(std::move(source)),
      template_(std::move(compiled)),
      tokens_(std::move(tokens)),
      thinking_(thinking),
      reply_(learn_reply_format()),
      system_(learn_places(system)),
      shape_(shape_of(*this, tokens_)),
      header_(learn_header()),
      shows_calls_(learn_shows_calls()),
      call_opener_(learn_call_opener()) {}

// Beside what its text shows: how it closes reasoning, by a reply that it renders.
ReplyFormat ChatFormat::learn_reply_format() const {
  ReplyFormat format = detect_reply_format(source_);
  if (!format.has_reasoning()) return format;
  constexpr std::string_view kReasoning = "reasoning7";
  constexpr std::string_view kContent = "content7";
  const Json user{{"role", "user"}, {"content", "7"}};
  const Json reply{{"role", "assistant"},
                   {"content", kContent},
                   {"reasoning_content", kReasoning},
                   {"reasoning", kReasoning}};
  const auto text = template_.render(
      context_of({.messages = Json(), .add_generation_prompt = false}, Json(Json::Array{user, reply})));
  if (!text.ok()) return format;
  const std::size_t reasoning = text->find(kReasoning);
  if (reasoning == std::string::npos) return format;
  const std::size_t begin = reasoning + kReasoning.size();
  const std::size_t close = text->find(format.think_close, begin);
  if (close == std::string::npos) return format;
  const std::size_t behind = close + format.think_close.size();
  const std::size_t content = text->find(kContent, behind);
  if (content == std::string::npos) return format;
  const auto are_newlines = [](std::string_view part) {
    return part.size() <= 2 && part.find_first_not_of('\n') == std::string_view::npos;
  };
  const std::string before = text->substr(begin, close - begin);
  const std::string after = text->substr(behind, content - behind);
  if (are_newlines(before)) format.before_think_close = before;
  if (are_newlines(after)) format.after_think_close = after;
  return format;
}

SystemPlaces ChatFormat::learn_places(SystemInPlace system) const {
  const RenderMessages render = [this](const Json::Array& messages) -> std::optional<std::string> {
    auto text =
        template_.render(context_of({.messages = Json(), .add_generation_prompt = false}, Json(messages)));
    if (!text.ok()) return std::nullopt;
    return std::move(*text);
  };
  return learn_system_places(render, system);
}

Json ChatFormat::context_of(const ChatPrompt& chat, Json messages) const {
  Json context = Json::object();
  if (chat.template_extra.is_object()) context = chat.template_extra;
  context["messages"] = std::move(messages);
  context["tools"] = chat.tools;
  context["add_generation_prompt"] = chat.add_generation_prompt;
  context["bos_token"] = tokens_.bos;
  context["eos_token"] = tokens_.eos;
  if (thinking_ && context.find("enable_thinking") == nullptr) context["enable_thinking"] = *thinking_;
  return context;
}

Outcome<std::string, ServiceError> ChatFormat::render(const ChatPrompt& chat) const {
  Json messages = place_system_messages(template_form(chat.messages, reply_.null_content), system_);
  if (messages.is_array()) {
    for (Json& message : messages.as_array()) message.erase(kTurnMember);
  }
  const Json context = context_of(chat, std::move(messages));
  const Json* thinks = context.find("enable_thinking");
  auto rendered = template_.render(context);
  if (rendered.ok()) {
    if (thinks != nullptr && thinks->is_bool() && !thinks->as_bool() && chat.add_generation_prompt &&
        opens_thinking(reply_, *rendered)) {
      *rendered += reply_.think_close;
    }
    if (chat.opening_is_content) close_reasoning(reply_, chat.opening_reasoning, *rendered);
    return std::move(*rendered) + chat.reply_opening;
  }
  return ServiceError{ServiceErrorCode::kInvalid,
                      "the chat template rejected the messages: " + rendered.error().describe(), "messages"};
}

bool ChatFormat::asks_for_reasoning(const ChatPrompt& chat) const {
  const Json* thinks =
      chat.template_extra.is_object() ? chat.template_extra.find("enable_thinking") : nullptr;
  if (thinks != nullptr && thinks->is_bool()) return thinks->as_bool();
  const std::string* effort =
      chat.template_extra.is_object() ? chat.template_extra.find_string("reasoning_effort") : nullptr;
  return effort != nullptr ? *effort != "none" : thinking_.value_or(false);
}

Json ChatFormat::message_of(const ChatPrompt& chat, std::string_view reply, const std::string& prompt_tail,
                            const std::string& id_seed) const {
  ReplyParser reading = parser({.tools = chat.tools,
                                .prompt_tail = prompt_tail,
                                .reply_opening = chat.reply_opening,
                                .id_seed = id_seed});
  ReplyPieces pieces = reading.push(reply);
  for (ReplyPiece& piece : reading.finish()) pieces.push_back(std::move(piece));
  return assistant_message(pieces);
}

// Two different next messages are rendered: their common tokens are those that come before either.
TokenList ChatFormat::history_after(const ChatPrompt& chat, const Json& reply_message,
                                    std::vector<RecognizedTurn> turns, SharedTurn reply_turn) const {
  if (!tokens_.encode || !tokens_.is_special || !chat.messages.is_array()) return {};
  ChatPrompt answered = chat;
  answered.reply_opening.clear();
  if (reply_turn != nullptr) turns.push_back({answered.messages.size(), std::move(reply_turn)});
  answered.messages.push_back(reply_message);
  const Json::Array* calls = reply_message.find_array("tool_calls");
  Json next{{"role", "user"}};
  if (calls != nullptr && !calls->empty()) {
    const std::string* id = calls->front().find_string("id");
    next = Json{{"role", "tool"}, {"tool_call_id", id == nullptr ? std::string() : *id}};
  }
  const auto continued = [&](const char* words) {
    ChatPrompt goes_on = answered;
    next["content"] = words;
    goes_on.messages.push_back(next);
    auto shown = show(goes_on, turns);
    return shown.ok() ? std::move(shown->tokens) : TokenList{};
  };
  TokenList one = continued("7");
  const TokenList other = continued("x");
  auto common = static_cast<std::size_t>(
      std::mismatch(one.begin(), one.end(), other.begin(), other.end()).first - one.begin());
  while (common > 0 && !tokens_.is_special(one[common - 1])) --common;
  one.resize(common);
  return one;
}

}  // namespace reprise::protocol
