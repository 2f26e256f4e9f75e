// Where a chat's breakpoints are in its prompt. No template is known by name: the chat is rendered once more with a
// mark at the breakpoint, and what the two texts have in common ends there.

#include <algorithm>

#include "protocol/chat/chat_format.h"

namespace reprise::protocol {
namespace {

constexpr const char* kMark = "\x01";  // stands in no text that people write, and is no white space

/// Puts the mark at the place; false where the chat has no such place.
bool mark(ChatPrompt& chat, const ChatBreakpoint& place) {
  if (place.in == ChatBreakpoint::In::kTool) {
    if (!chat.tools.is_array() || place.index >= chat.tools.size()) return false;
    chat.tools.as_array()[place.index][kMark] = 1;
    return true;
  }
  if (!chat.messages.is_array() || place.index >= chat.messages.size()) return false;
  Json& message = chat.messages.as_array()[place.index];
  if (place.in == ChatBreakpoint::In::kContent) {
    Json* content = message.find("content");
    if (content == nullptr || !content->is_string() || place.at > content->as_string().size()) return false;
    const std::string text = content->as_string();
    *content = text.substr(0, place.at) + kMark + text.substr(place.at);
    return true;
  }
  Json* calls = message.find("tool_calls");
  if (calls == nullptr || !calls->is_array() || place.at >= calls->size()) return false;
  Json* function = calls->as_array()[place.at].find("function");
  Json* arguments = function == nullptr ? nullptr : function->find("arguments");
  if (arguments == nullptr || !arguments->is_object()) return false;
  (*arguments)[kMark] = 1;
  return true;
}

}  // namespace

std::vector<std::uint32_t> ChatFormat::breakpoints(const ChatPrompt& chat, const std::string& text,
                                                   std::span<const TokenId> prompt) const {
  std::vector<std::uint32_t> places(chat.breakpoints.size(), 0);
  if (!tokens_.encode || !tokens_.is_special) return places;
  // Where the tokens are the text's bytes in order, one walk finds all places; else the text before each is tokenised.
  std::vector<std::size_t> ends;  // of each token, in bytes of the text
  if (tokens_.bytes) {
    ends.reserve(prompt.size());
    for (const TokenId id : prompt) ends.push_back((ends.empty() ? 0 : ends.back()) + tokens_.bytes(id));
    if (ends.empty() || ends.back() != text.size()) ends.clear();
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    ChatPrompt marked = chat;
    if (!mark(marked, chat.breakpoints[i])) continue;
    const auto rendered = render(marked);
    if (!rendered.ok()) continue;
    const auto end = static_cast<std::size_t>(
        std::mismatch(text.begin(), text.end(), rendered->begin(), rendered->end()).first - text.begin());
    if (end == text.size()) continue;  // the template does not show it
    std::size_t before = 0;            // tokens that end there or earlier,
    bool whole = false;                // the last of them right there
    if (!ends.empty()) {
      before = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), end) - ends.begin());
      whole = before > 0 && ends[before - 1] == end;
    } else {
      const TokenList head = tokens_.encode(text.substr(0, end));
      before = static_cast<std::size_t>(
          std::mismatch(head.begin(), head.end(), prompt.begin(), prompt.end()).first - head.begin());
      whole = before == head.size();
    }
    // A special token that begins right there is a cut as well: the text before it is tokenised apart from it.
    if (!(whole && before < prompt.size() && tokens_.is_special(prompt[before]))) {
      while (before > 0 && !tokens_.is_special(prompt[before - 1])) --before;
    }
    places[i] = static_cast<std::uint32_t>(before);
  }
  return places;
}

}  // namespace reprise::protocol
