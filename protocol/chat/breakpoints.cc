// Where breakpoints and ends of blocks are in a chat's prompt. No template is known by name: the chat is rendered once more
// with marks in its texts, and the two renderings are compared. A breakpoint in a tool or in a call takes a rendering of its
// own: what the two have in common ends there.

#include <algorithm>

#include "protocol/chat/chat_format.h"
#include "protocol/reply/reply_message.h"

namespace reprise::protocol {
namespace {

constexpr char kMark = '\x01';  // stands in no text that people write, and is no white space
constexpr std::size_t kMaxTextMarks = 64;
constexpr std::size_t kMaxBlocks = 4;  // a state each

/// What stands at the i-th place of a text.
std::string text_mark(std::size_t i) {
  return {kMark, static_cast<char>('0' + i)};
}

/// The content of a message as one text; null where the chat has no such message or text, or the place is behind its end.
std::string* text_at(ChatPrompt& chat, const ChatBreakpoint& place) {
  if (!chat.messages.is_array() || place.index >= chat.messages.size()) return nullptr;
  Json* content = chat.messages.as_array()[place.index].find("content");
  if (content == nullptr || !content->is_string() || place.at > content->as_string().size()) return nullptr;
  return &content->as_string();
}

/// Puts a member at the place; false where the chat has no such place.
bool mark(ChatPrompt& chat, const ChatBreakpoint& place) {
  const std::string name(1, kMark);
  if (place.in == ChatBreakpoint::In::kTool) {
    if (!chat.tools.is_array() || place.index >= chat.tools.size()) return false;
    chat.tools.as_array()[place.index][name] = 1;
    return true;
  }
  if (!chat.messages.is_array() || place.index >= chat.messages.size()) return false;
  Json* calls = chat.messages.as_array()[place.index].find("tool_calls");
  if (calls == nullptr || !calls->is_array() || place.at >= calls->size()) return false;
  Json* function = calls->as_array()[place.at].find("function");
  Json* arguments = function == nullptr ? nullptr : function->find("arguments");
  if (arguments == nullptr || !arguments->is_object()) return false;
  (*arguments)[name] = 1;
  return true;
}

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/// Where the marks of `marked` are in `text`, by their numbers. White space beside a mark may be trimmed away in the text
/// alone; where the two differ in more than that the rest is not looked at.
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
  bool before_result = false;  // the message behind is a tool's
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
        const std::size_t begin = ends.empty() ? 0 : ends.back() + 1;  // a line break is between two
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
                                                   std::span<const ChatBreakpoint> places,
                                                   const ShownChat& prompt) const {
  const std::string& text = prompt.text;
  std::vector<std::uint32_t> tokens(places.size(), 0);
  if (!tokens_.encode || !tokens_.is_special || places.empty()) return tokens;
  constexpr std::size_t kNowhere = std::string::npos;
  std::vector<std::size_t> found(places.size(), kNowhere);  // in bytes of the text

  ChatPrompt texts = chat;
  texts.messages = template_form(std::move(texts.messages), reply_.null_content);
  std::vector<std::size_t> order;  // of those in a text, the last place of a message first
  for (std::size_t i = 0; i < std::min(places.size(), kMaxTextMarks); ++i) {
    if (places[i].in == ChatBreakpoint::In::kContent && text_at(texts, places[i]) != nullptr)
      order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return places[a].at > places[b].at; });
  for (const std::size_t i : order) text_at(texts, places[i])->insert(places[i].at, text_mark(i));
  if (!order.empty()) {
    if (const auto marked = text_of(texts, turns)) find_marks(text, *marked, found);
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].in == ChatBreakpoint::In::kContent) continue;
    ChatPrompt marked = chat;
    if (!mark(marked, places[i])) continue;
    const auto rendered = text_of(marked, turns);
    if (!rendered) continue;
    found[i] = static_cast<std::size_t>(
        std::mismatch(text.begin(), text.end(), rendered->begin(), rendered->end()).first - text.begin());
  }

  // Where the tokens are the text's bytes in order, one walk finds all places; else the text before each is tokenised.
  std::vector<std::size_t> ends;  // of each token, in bytes of the text
  if (tokens_.bytes) {
    ends.reserve(prompt.tokens.size());
    for (const TokenId id : prompt.tokens)
      ends.push_back((ends.empty() ? 0 : ends.back()) + tokens_.bytes(id));
    if (ends.empty() || ends.back() != text.size()) ends.clear();
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (found[i] >= text.size()) continue;  // the template does not show it
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

}  // namespace reprise::protocol
