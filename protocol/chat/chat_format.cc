#include "protocol/chat/chat_format.h"

#include <algorithm>
#include <random>

#include "protocol/reply/call_text.h"
#include "protocol/reply/reply_message.h"

namespace reprise::protocol {
namespace {

/// Closes reasoning that is open, or that was given.
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
                                                                         SystemMessageMode system) {
  auto compiled = jinja::Template::compile(source);
  if (!compiled.ok()) return "chat template: " + compiled.error().describe();
  return std::shared_ptr<const ChatFormat>(
      new ChatFormat(std::move(source), std::move(*compiled), std::move(tokens), thinking, system));
}

// Order matters: the functions that learn a member render with the members declared before it.
ChatFormat::ChatFormat(std::string source, jinja::Template compiled, Tokens tokens,
                       std::optional<bool> thinking, SystemMessageMode system)
    : source_(std::move(source)),
      template_(std::move(compiled)),
      tokens_(std::move(tokens)),
      thinking_(thinking),
      reply_(learn_reply_format()),
      system_(learn_system_support(system)),
      shape_(shape_of(*this, tokens_)),
      header_(learn_header()),
      shows_calls_(learn_shows_calls()),
      call_opener_(learn_call_opener()) {}

// Adds to the detected format how the template closes reasoning, from a rendered reply.
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
  const std::size_t close_end = close + format.think_close.size();
  const std::size_t content = text->find(kContent, close_end);
  if (content == std::string::npos) return format;
  const auto are_newlines = [](std::string_view part) {
    return part.size() <= 2 && part.find_first_not_of('\n') == std::string_view::npos;
  };
  const std::string before = text->substr(begin, close - begin);
  const std::string after = text->substr(close_end, content - close_end);
  if (are_newlines(before)) format.before_think_close = before;
  if (are_newlines(after)) format.after_think_close = after;
  return format;
}

SystemMessageSupport ChatFormat::learn_system_support(SystemMessageMode system) const {
  const RenderMessages render = [this](const Json::Array& messages) -> std::optional<std::string> {
    auto text =
        template_.render(context_of({.messages = Json(), .add_generation_prompt = false}, Json(messages)));
    if (!text.ok()) return std::nullopt;
    return std::move(*text);
  };
  return learn_system_message_support(render, system);
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

Outcome<std::string, Error> ChatFormat::render(const ChatPrompt& chat) const {
  Json messages = arrange_system_messages(template_form(chat.messages, reply_.null_content), system_);
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
  return Error{ErrorKind::kInvalid, "the chat template rejected the messages: " + rendered.error().describe(),
               "messages"};
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

// Renders two different next messages: their common tokens do not depend on the message.
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

// -- breakpoints
//
// Finds breakpoints and block boundaries in a prompt: the chat is rendered a second time with marks in its
// texts, and the renderings are compared. A breakpoint in a tool or a call needs a rendering of its own: it
// is where the two begin to differ.

namespace {

constexpr char kMark = '\x01';  // not used in normal text, and not whitespace
constexpr std::size_t kMaxTextMarks = 64;
constexpr std::size_t kMaxBlocks = 4;  // each costs a state

std::string text_mark(std::size_t i) {
  return {kMark, static_cast<char>('0' + i)};
}

/// Returns the content of a message if it is one string; null if the chat has no such message or text, or the
/// position is beyond its end.
std::string* text_at(ChatPrompt& chat, const ChatBreakpoint& position) {
  if (!chat.messages.is_array() || position.index >= chat.messages.size()) return nullptr;
  Json* content = chat.messages.as_array()[position.index].find("content");
  if (content == nullptr || !content->is_string() || position.at > content->as_string().size())
    return nullptr;
  return &content->as_string();
}

/// Inserts a member at the position; returns false if the chat has no such position.
bool mark(ChatPrompt& chat, const ChatBreakpoint& position) {
  const std::string name(1, kMark);
  if (position.in == ChatBreakpoint::In::kTool) {
    if (!chat.tools.is_array() || position.index >= chat.tools.size()) return false;
    chat.tools.as_array()[position.index][name] = 1;
    return true;
  }
  if (!chat.messages.is_array() || position.index >= chat.messages.size()) return false;
  Json* calls = chat.messages.as_array()[position.index].find("tool_calls");
  if (calls == nullptr || !calls->is_array() || position.at >= calls->size()) return false;
  Json* function = calls->as_array()[position.at].find("function");
  Json* arguments = function == nullptr ? nullptr : function->find("arguments");
  if (arguments == nullptr || !arguments->is_object()) return false;
  (*arguments)[name] = 1;
  return true;
}

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/// Finds the positions in `text` that correspond to the marks in `marked`, by mark number. Tolerates
/// whitespace that was trimmed next to a mark; stops at any other difference.
void find_marks(const std::string& text, const std::string& marked, std::vector<std::size_t>& found) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < marked.size(); ++i) {
    if (at < text.size() && marked[i] == text[at]) {
      ++at;
    } else if (marked[i] == kMark && i + 1 < marked.size()) {
      const auto number = static_cast<std::size_t>(marked[++i] - '0');
      if (number < found.size()) found[number] = at;
    } else if (!is_space(marked[i])) {
      return;
    }
  }
}

}  // namespace

std::vector<ChatBreakpoint> last_blocks(const ChatPrompt& chat) {
  std::vector<ChatBreakpoint> blocks;
  if (!chat.messages.is_array()) return blocks;
  const Json::Array& messages = chat.messages.as_array();
  bool before_result = false;  // the following message is a tool result
  for (std::size_t i = messages.size(); i > 0 && blocks.size() < kMaxBlocks; --i) {
    const Json& message = messages[i - 1];
    const std::string* role = message.find_string("role");
    if (role == nullptr || *role == "assistant") break;
    std::vector<std::size_t> ends;
    for (const ChatBreakpoint& block : chat.blocks) {
      if (block.index == i - 1) ends.push_back(block.at);
    }
    if (const Json::Array* parts = message.find_array("content")) {
      for (const Json& part : *parts) {
        const std::string* text = part.find_string("text");
        const std::size_t begin = ends.empty() ? 0 : ends.back() + 1;  // +1: the line break between parts
        ends.push_back(begin + (text == nullptr ? 0 : text->size()));
      }
      if (!ends.empty() && !before_result) ends.pop_back();
    } else if (const std::string* text = message.find_string("content"); text != nullptr && before_result) {
      ends.push_back(text->size());
    }
    before_result = *role == "tool";
    for (auto at = ends.rbegin(); at != ends.rend() && blocks.size() < kMaxBlocks; ++at) {
      blocks.push_back({.index = static_cast<std::uint32_t>(i - 1), .at = *at});
    }
  }
  return blocks;
}

std::optional<std::string> ChatFormat::text_of(const ChatPrompt& chat,
                                               const std::vector<RecognizedTurn>& turns) const {
  const auto parts = parts_of(chat, turns);
  if (!parts.ok()) return std::nullopt;
  std::string text;
  for (const ShownPart& part : *parts)
    text += part.turn == nullptr ? part.text : part.turn->text.substr(part.from);
  return text;
}

std::vector<std::uint32_t> ChatFormat::breakpoints(const ChatPrompt& chat,
                                                   const std::vector<RecognizedTurn>& turns,
                                                   std::span<const ChatBreakpoint> positions,
                                                   const ShownChat& prompt) const {
  const std::string& text = prompt.text;
  std::vector<std::uint32_t> tokens(positions.size(), 0);
  if (!tokens_.encode || !tokens_.is_special || positions.empty()) return tokens;
  constexpr std::size_t kNowhere = std::string::npos;
  std::vector<std::size_t> found(positions.size(), kNowhere);  // byte offsets in the text

  ChatPrompt texts = chat;
  texts.messages = template_form(std::move(texts.messages), reply_.null_content);
  std::vector<std::size_t> order;  // positions in texts, the last of a message first
  for (std::size_t i = 0; i < std::min(positions.size(), kMaxTextMarks); ++i) {
    if (positions[i].in == ChatBreakpoint::In::kContent && text_at(texts, positions[i]) != nullptr)
      order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return positions[a].at > positions[b].at; });
  for (const std::size_t i : order) text_at(texts, positions[i])->insert(positions[i].at, text_mark(i));
  if (!order.empty()) {
    if (const auto marked = text_of(texts, turns)) find_marks(text, *marked, found);
  }
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i].in == ChatBreakpoint::In::kContent) continue;
    ChatPrompt marked = chat;
    if (!mark(marked, positions[i])) continue;
    const auto rendered = text_of(marked, turns);
    if (!rendered) continue;
    found[i] = static_cast<std::size_t>(
        std::mismatch(text.begin(), text.end(), rendered->begin(), rendered->end()).first - text.begin());
  }

  // If the tokens are exactly the text's bytes, one pass finds all positions; otherwise the text before each
  // is tokenized.
  std::vector<std::size_t> ends;  // byte offset of the end of each token
  if (tokens_.bytes) {
    ends.reserve(prompt.tokens.size());
    for (const TokenId id : prompt.tokens)
      ends.push_back((ends.empty() ? 0 : ends.back()) + tokens_.bytes(id));
    if (ends.empty() || ends.back() != text.size()) ends.clear();
  }
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (found[i] >= text.size()) continue;  // not shown by the template
    if (!ends.empty()) {
      tokens[i] =
          static_cast<std::uint32_t>(std::upper_bound(ends.begin(), ends.end(), found[i]) - ends.begin());
    } else {
      const TokenList head = tokens_.encode(text.substr(0, found[i]));
      tokens[i] = static_cast<std::uint32_t>(
          std::mismatch(head.begin(), head.end(), prompt.tokens.begin(), prompt.tokens.end()).first -
          head.begin());
    }
  }
  return tokens;
}

// -- sampled turns
//
// Puts turns that a client sent back into the prompt as they were sampled (protocol/sampled_turns.h). The
// chat is rendered with marks instead of the turns' texts; the output around the marks shows where each turn
// begins and ends and whether its reasoning is shown. A turn that cannot be located is rendered like other
// messages.

namespace {

constexpr std::size_t kMaxClosing = 512;  // maximum bytes that a template writes after a turn's last argument
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

/// Returns the arguments as a value; nothing if they are missing or not JSON.
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

/// Returns whether the client's message equals the turn: the same content and calls, and the same reasoning
/// or none.
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

/// Marks are letters and digits, which templates do not escape. A random part per process ensures that no
/// message contains one.
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

/// Replaces the texts of all recognized turns by marks. If the template shows no calls, the whole turn is one
/// content mark.
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

/// Returns the end of a reasoning block that begins at `at`, including trailing newlines; `at` if there is
/// none, npos if it is not closed.
std::size_t end_of_reasoning(const ReplyFormat& format, std::string_view text, std::size_t at) {
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

// The header is what add_generation_prompt adds to a conversation, without an opened thinking block.
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

// Returns the offset after the special token that ends a turn in the template, which may differ from the one
// that ended the reply: the first that does not occur in the turn itself, as marks of calls do.
std::size_t ChatFormat::end_of_turn(const std::string& text, std::size_t content_end,
                                    const SampledTurn& turn) const {
  for (const TokenId token : tokens_.encode_rest(text.substr(content_end, kMaxClosing))) {
    const bool is_turns = std::find(turn.tokens.begin(), turn.tokens.end(), token) != turn.tokens.end();
    if (tokens_.is_special(token) && !is_turns) return content_end;
    content_end += tokens_.bytes(token);
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
                        : end_of_reasoning(reply_, std::string_view(text).substr(0, at.first), body);
    if (opened == std::string::npos) continue;
    const std::string_view before = std::string_view(text).substr(begin, opened - begin);
    std::size_t from = 0;  // bytes of the turn to omit
    if (!turn.text.starts_with(before) || (before.size() == header_.size() && !shows_reasoning)) {
      from = end_of_reasoning(reply_, turn.text, header_.size());
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

Outcome<std::vector<ChatFormat::ShownPart>, Error> ChatFormat::parts_of(
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

Outcome<ShownChat, Error> ChatFormat::show(const ChatPrompt& chat, std::vector<RecognizedTurn> turns) const {
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
