#include "protocol/chat/prompt_shape.h"

#include <algorithm>

namespace reprise::protocol {
namespace {

using Tokens = std::vector<TokenId>;

std::size_t common_prefix(const Tokens& a, const Tokens& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

std::size_t common_suffix(const Tokens& a, const Tokens& b) {
  return static_cast<std::size_t>(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first -
                                  a.rbegin());
}

/// Returns the tokens before the last text of a conversation: the common prefix of two renderings with
/// different last texts.
std::optional<Tokens> lead_in(const RenderProbe& render, std::vector<const char*> texts) {
  texts.push_back("7");
  const std::optional<Tokens> one = render(texts);
  texts.back() = "x";
  const std::optional<Tokens> other = render(texts);
  if (!one || !other) return std::nullopt;
  return Tokens(one->begin(), one->begin() + static_cast<std::ptrdiff_t>(common_prefix(*one, *other)));
}

}  // namespace

PromptShape learn_shape(const RenderProbe& render, const std::function<bool(TokenId)>& is_special) {
  // The tokens before a user's, an assistant's and the first message's text.
  const std::optional<Tokens> to_user = lead_in(render, {"7", "7"});
  const std::optional<Tokens> to_assistant = lead_in(render, {"7"});
  const std::optional<Tokens> to_first = lead_in(render, {});
  if (!to_user || !to_first) return {};
  PromptShape shape;
  // Search backward from the end of the user's prefix for the special token from which it differs from an
  // assistant's.
  const std::size_t same_end = common_suffix(*to_user, *to_first);
  const std::size_t same_as_assistant = to_assistant ? common_suffix(*to_user, *to_assistant) : 0;
  for (std::size_t length = 1; length <= same_end; ++length) {
    const std::size_t at = to_user->size() - length;
    if (!is_special((*to_user)[at]) || length <= same_as_assistant) continue;
    shape.opener = (*to_user)[at];
    shape.user_role.assign(to_user->begin() + static_cast<std::ptrdiff_t>(at) + 1, to_user->end());
    break;
  }
  return shape;
}

MessageBorders find_borders(const PromptShape& shape, std::span<const TokenId> prompt) {
  MessageBorders borders;
  if (!shape.known()) return borders;
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] != shape.opener) continue;
    const auto past = static_cast<std::uint32_t>(i + 1);
    borders.last_opener = past;
    if (borders.last_user && !borders.after_last_user) borders.after_last_user = past;
    const std::span<const TokenId> rest = prompt.subspan(past);
    if (rest.size() < shape.user_role.size() ||
        !std::equal(shape.user_role.begin(), shape.user_role.end(), rest.begin())) {
      continue;
    }
    if (!borders.first_user) borders.first_user = past;
    borders.last_user = past;
    borders.after_last_user.reset();
  }
  return borders;
}

}  // namespace reprise::protocol
