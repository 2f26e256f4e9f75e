// Turns that come back from a client, as they were sampled (protocol/sampled_turns.h). No template is known by name: the chat is
// rendered with marks in the place of what the turns say, and what the template wrote around the marks shows where each turn
// begins and ends and whether its reasoning is shown. A turn that cannot be told apart so is rendered as any other message.

#include <algorithm>

#include <random>

#include "protocol/chat/chat_format.h"
#include "protocol/reply/call_text.h"
#include "protocol/reply/reply_message.h"

namespace reprise::protocol {
namespace {

constexpr std::size_t kMaxClosing = 512;  // bytes that a template writes behind a turn's last argument
constexpr int kMaxPasses = 3;             // renderings to find out which turns the template shows
constexpr JsonReading kLongIntegers{.python = true};

std::string_view trimmed_text(const Json& message, const char* member) {
  const std::string* text = message.find_string(member);
  return text == nullptr ? std::string_view() : trimmed(*text);
}

bool is_same_value(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number() && a.kind() != b.kind()) return a.as_double() == b.as_double();
  if (a.kind() != b.kind()) return false;
  if (a.is_array()) {
    return std::equal(a.as_array().begin(), a.as_array().end(), b.as_array().begin(), b.as_array().end(),
                      is_same_value);
  }
  if (!a.is_object()) return a == b;
  return a.size() == b.size() &&
         std::all_of(a.as_object().begin(), a.as_object().end(), [&](const Json::Member& member) {
           const Json* other = b.find(member.key);
           return other != nullptr && is_same_value(member.value, *other);
         });
}

/// As a value; nothing where there are none, or their text is none.
std::optional<Json> arguments_of(const Json& function) {
  const Json* arguments = function.find("arguments");
  if (arguments == nullptr) return std::nullopt;
  if (!arguments->is_string()) return *arguments;
  auto parsed = Json::parse(arguments->as_string(), {}, kLongIntegers);
  return parsed.ok() ? std::optional(std::move(*parsed)) : std::nullopt;
}

bool is_same_call(const Json& a, const Json& b) {
  const Json* function = a.find_object("function");
  const Json* other = b.find_object("function");
  const std::string* id = a.find_string("id");
  const std::string* other_id = b.find_string("id");
  if (function == nullptr || other == nullptr || id == nullptr || other_id == nullptr || *id != *other_id)
    return false;
  const std::optional<Json> arguments = arguments_of(*function);
  const std::optional<Json> other_arguments = arguments_of(*other);
  return trimmed_text(*function, "name") == trimmed_text(*other, "name") && arguments && other_arguments &&
         is_same_value(*arguments, *other_arguments);
}

/// Returns whether the client's message is the turn: the same content and calls, and the same reasoning or none.
bool is_same_turn(const Json& client_message, const SampledTurn& turn) {
  const Json message = template_form(client_message);
  const Json sampled = template_form(turn.message);
  if (trimmed_text(message, "content") != trimmed_text(sampled, "content")) return false;
  const std::string_view reasoning = trimmed_text(message, "reasoning_content");
  if (!reasoning.empty() && reasoning != trimmed_text(sampled, "reasoning_content")) return false;
  static const Json::Array kNone;
  const Json::Array* calls = message.find_array("tool_calls");
  const Json::Array* sampled_calls = sampled.find_array("tool_calls");
  if (calls == nullptr) calls = &kNone;
  if (sampled_calls == nullptr) sampled_calls = &kNone;
  return std::equal(calls->begin(), calls->end(), sampled_calls->begin(), sampled_calls->end(), is_same_call);
}

std::size_t calls_of(const SampledTurn& turn) {
  const Json::Array* calls = turn.message.find_array("tool_calls");
  return calls == nullptr ? 0 : calls->size();
}

/// Marks are letters and digits, which no template escapes. Their first half is drawn anew by each process: no message can
/// hold one.
const std::string& mark_head() {
  static const std::string head = [] {
    std::random_device device;
    std::string text = "sampled";
    for (int i = 0; i < 4; ++i) text += 'x' + std::to_string(device());
    return text + 'y';
  }();
  return head;
}

enum class MarkOf : char { kReasoning = 'r', kContent = 'c', kCall = 'f' };

std::string mark(std::size_t turn, MarkOf of) {
  return mark_head() + std::to_string(turn) + static_cast<char>(of);
}

/// The chat with marks for all that its recognized turns say. Where the template shows no calls, a turn is a content.
ChatPrompt marked_chat(ChatPrompt chat, std::span<const RecognizedTurn> turns, bool shows_calls) {
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const Json& sampled = turns[i].turn->message;
    Json& message = chat.messages.as_array()[turns[i].message];
    message.erase("reasoning");
    message.erase("reasoning_content");
    if (!trimmed_text(sampled, "reasoning_content").empty())
      message["reasoning_content"] = mark(i, MarkOf::kReasoning);
    if (!shows_calls || !trimmed_text(sampled, "content").empty())
      message["content"] = mark(i, MarkOf::kContent);
    if (!shows_calls) message.erase("tool_calls");
    Json* calls = message.find("tool_calls");
    if (calls == nullptr || !calls->is_array()) continue;
    for (Json& call : calls->as_array()) {
      Json arguments = Json::object();
      arguments[mark(i, MarkOf::kCall)] = 1;
      (*call.find("function"))["arguments"] = std::move(arguments);
    }
  }
  return chat;
}

/// Where the marks of one turn are in the text.
struct MarkedTurn {
  std::size_t first = std::string::npos;
  std::size_t last_end = 0;
  std::size_t reasoning = std::string::npos;
  bool has_content = false;
  std::size_t calls = 0;
};

std::vector<MarkedTurn> find_turns(const std::string& text, std::size_t count) {
  std::vector<MarkedTurn> turns(count);
  const std::string& head = mark_head();
  for (std::size_t at = text.find(head); at != std::string::npos; at = text.find(head, at + 1)) {
    std::size_t end = at + head.size();
    std::size_t number = 0;
    for (; end < text.size() && text[end] >= '0' && text[end] <= '9' && number <= count; ++end)
      number = number * 10 + static_cast<std::size_t>(text[end] - '0');
    if (end == text.size() || number >= count) continue;
    MarkedTurn& turn = turns[number];
    turn.first = std::min(turn.first, at);
    turn.last_end = end + 1;
    const auto of = static_cast<MarkOf>(text[end]);
    if (of == MarkOf::kReasoning) turn.reasoning = at;
    turn.has_content = turn.has_content || of == MarkOf::kContent;
    turn.calls += of == MarkOf::kCall ? 1 : 0;
  }
  return turns;
}

/// The end of a block of reasoning at that position of a text, with the newlines behind it; the position itself where there is
/// none, npos where it does not end.
std::size_t behind_reasoning(const ReplyFormat& format, std::string_view text, std::size_t at) {
  if (!format.has_reasoning()) return at;
  const std::size_t begin = text.find_first_not_of(" \n", at);
  if (begin == std::string_view::npos || !text.substr(begin).starts_with(format.think_open)) return at;
  std::size_t end = text.find(format.think_close, begin);
  if (end == std::string_view::npos) return end;
  end += format.think_close.size();
  while (end < text.size() && text[end] == '\n') ++end;
  return end;
}

}  // namespace

std::vector<RecognizedTurn> recognize_turns(const Json& messages, const FindTurn& find) {
  std::vector<RecognizedTurn> found;
  if (!messages.is_array()) return found;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages.as_array()[i];
    const std::string* role = message.find_string("role");
    if (role == nullptr || *role != "assistant") continue;
    const std::string name = turn_name(message);
    SharedTurn turn = name.empty() ? nullptr : find(name);
    if (turn != nullptr && is_same_turn(message, *turn)) found.push_back({i, std::move(turn)});
  }
  return found;
}

// The header is the text that a reply's opening adds to a conversation, up to the reasoning that it opens.
std::string ChatFormat::learn_header() const {
  if (!tokens_.encode || !tokens_.encode_rest || !tokens_.is_special || !tokens_.bytes) return {};
  ChatPrompt chat{.messages = Json::array(), .add_generation_prompt = false};
  chat.messages.push_back(Json{{"role", "user"}, {"content", "7"}});
  const auto closed = render(chat);
  chat.add_generation_prompt = true;
  const auto opened = render(chat);
  if (!closed.ok() || !opened.ok() || !opened->starts_with(*closed)) return {};
  std::string header = opened->substr(closed->size());
  if (reply_.has_reasoning()) header.resize(std::min(header.size(), header.find(reply_.think_open)));
  const TokenList tokens = tokens_.encode_rest(header);
  if (tokens.empty() || !tokens_.is_special(tokens.front())) return {};
  return header;
}

bool ChatFormat::learn_shows_calls() const {
  const auto conversation = Json::parse(R"([{"role": "user", "content": "7"},
      {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefgh1", "type": "function",
          "function": {"name": "f", "arguments": {"argument7": 7}}}]},
      {"role": "tool", "tool_call_id": "abcdefgh1", "name": "f", "content": "7"}])");
  const auto rendered = render({.messages = *conversation});
  return !rendered.ok() || rendered->find("argument7") != std::string::npos;
}

std::optional<TokenId> ChatFormat::learn_call_opener() const {
  if (!tokens_.encode_rest || reply_.call_open.empty()) return std::nullopt;
  const TokenList tokens = tokens_.encode_rest(reply_.call_open);
  return tokens.size() == 1 ? std::optional(tokens.front()) : std::nullopt;
}

std::optional<std::size_t> ChatFormat::turn_begin(const std::string& prompt,
                                                  std::span<const TokenId> tokens) const {
  const std::size_t at = header_.empty() ? std::string::npos : prompt.rfind(header_);
  if (at == std::string::npos) return std::nullopt;
  std::size_t bytes = prompt.size() - at;
  std::size_t first = tokens.size();
  while (bytes > 0 && first > 0 && tokens_.bytes(tokens[first - 1]) <= bytes)
    bytes -= tokens_.bytes(tokens[--first]);
  if (bytes > 0) return std::nullopt;
  return first;
}

// The template ends a turn with a special token, which is not always the one that ended the reply: the first that the turn has
// not itself, as it has marks of calls.
std::size_t ChatFormat::end_of_turn(const std::string& text, std::size_t behind,
                                    const SampledTurn& turn) const {
  for (const TokenId token : tokens_.encode_rest(text.substr(behind, kMaxClosing))) {
    const bool is_turns = std::find(turn.tokens.begin(), turn.tokens.end(), token) != turn.tokens.end();
    if (tokens_.is_special(token) && !is_turns) return behind;
    behind += tokens_.bytes(token);
  }
  return std::string::npos;
}

std::vector<ChatFormat::ShownPart> ChatFormat::cut_at_turns(const std::string& text,
                                                            std::span<const RecognizedTurn> turns,
                                                            std::vector<bool>& is_shown) const {
  std::vector<ShownPart> parts;
  std::size_t done = 0;  // bytes of the text
  const std::vector<MarkedTurn> marked = find_turns(text, turns.size());
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const SampledTurn& turn = *turns[i].turn;
    const MarkedTurn& at = marked[i];
    const bool has_content = !shows_calls_ || !trimmed_text(turn.message, "content").empty();
    const bool is_whole = at.first != std::string::npos && at.has_content == has_content &&
                          at.calls == (shows_calls_ ? calls_of(turn) : 0);
    const std::size_t begin = is_whole ? text.rfind(header_, at.first) : std::string::npos;
    const std::size_t end = is_whole ? end_of_turn(text, at.last_end, turn) : std::string::npos;
    if (begin == std::string::npos || begin < done || end == std::string::npos) continue;
    const std::size_t body = begin + header_.size();
    const bool shows_reasoning = at.reasoning != std::string::npos;
    const std::size_t opened =
        shows_reasoning ? at.reasoning
                        : behind_reasoning(reply_, std::string_view(text).substr(0, at.first), body);
    if (opened == std::string::npos) continue;
    const std::string_view before = std::string_view(text).substr(begin, opened - begin);
    std::size_t from = 0;  // bytes of the turn that are left out
    if (!turn.text.starts_with(before) || (before.size() == header_.size() && !shows_reasoning)) {
      from = behind_reasoning(reply_, turn.text, header_.size());
      if (shows_reasoning || from == std::string::npos) continue;
      if (from == header_.size() && before.size() == header_.size()) from = 0;
    }
    parts.push_back({.text = text.substr(done, (from == 0 ? begin : opened) - done)});
    parts.push_back({.turn = turns[i].turn, .from = from});
    done = end;
    is_shown[i] = true;
  }
  parts.push_back({.text = text.substr(done)});
  return parts;
}

Outcome<std::vector<ChatFormat::ShownPart>, ServiceError> ChatFormat::parts_of(
    const ChatPrompt& chat, std::vector<RecognizedTurn> turns) const {
  if (header_.empty()) turns.clear();
  for (int pass = 0; pass < kMaxPasses && !turns.empty(); ++pass) {
    const auto text = render(marked_chat(chat, turns, shows_calls_));
    if (!text.ok()) break;
    std::vector<bool> is_shown(turns.size(), false);
    std::vector<ShownPart> parts = cut_at_turns(*text, turns, is_shown);
    const auto hidden = static_cast<std::size_t>(std::count(is_shown.begin(), is_shown.end(), false));
    if (hidden == 0) return parts;
    std::size_t i = 0;
    std::erase_if(turns, [&](const RecognizedTurn&) { return !is_shown[i++]; });
  }
  auto text = render(chat);
  if (!text.ok()) return text.error();
  std::vector<ShownPart> parts;
  parts.push_back({.text = std::move(*text)});
  return parts;
}

Outcome<ShownChat, ServiceError> ChatFormat::show(const ChatPrompt& chat,
                                                  std::vector<RecognizedTurn> turns) const {
  const auto parts = parts_of(chat, std::move(turns));
  if (!parts.ok()) return parts.error();
  ShownChat shown;
  for (const ShownPart& part : *parts) {
    const auto append = [&](const TokenList& tokens, std::size_t first = 0) {
      shown.tokens.insert(shown.tokens.end(), tokens.begin() + static_cast<std::ptrdiff_t>(first),
                          tokens.end());
    };
    if (part.turn == nullptr) {
      append(shown.text.empty() ? tokens_.encode(part.text) : tokens_.encode_rest(part.text));
      shown.text += part.text;
      continue;
    }
    const SampledTurn& turn = *part.turn;
    std::size_t first = 0;
    std::size_t bytes = 0;
    while (first < turn.tokens.size() && bytes < part.from) bytes += tokens_.bytes(turn.tokens[first++]);
    if (bytes == part.from) {
      append(turn.tokens, first);
    } else {
      append(tokens_.encode_rest(turn.text.substr(part.from)));
    }
    shown.text += turn.text.substr(part.from);
    shown.recognized_calls += static_cast<std::uint32_t>(calls_of(turn));
  }
  return shown;
}

}  // namespace reprise::protocol
