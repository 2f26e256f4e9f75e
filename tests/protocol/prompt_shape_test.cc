// Message borders found in tokens.

#include "protocol/chat/prompt_shape.h"

#include <gtest/gtest.h>

namespace reprise::protocol {
namespace {

using Tokens = std::vector<TokenId>;

constexpr TokenId kOpen = 900, kClose = 901, kEndOfTurn = 902;

// ChatML: <open> role \n text <close> \n. Roles: user 1, assistant 2, system 3; newline 10.
Tokens chatml(const std::vector<std::pair<TokenId, Tokens>>& messages) {
  Tokens tokens;
  for (const auto& [role, text] : messages) {
    tokens.insert(tokens.end(), {kOpen, role, 10});
    tokens.insert(tokens.end(), text.begin(), text.end());
    tokens.insert(tokens.end(), {kClose, 10});
  }
  return tokens;
}

bool special(TokenId id) {
  return id >= 900;
}

TEST(PromptShape, LearnsChatMl) {
  const PromptShape shape = learn_shape(
      [](const std::vector<const char*>& texts) -> std::optional<Tokens> {
        std::vector<std::pair<TokenId, Tokens>> messages = {{3, {50, 51}}};  // a default system prompt
        for (std::size_t i = 0; i < texts.size(); ++i)
          messages.push_back({i % 2 == 0 ? 1 : 2, {texts[i][0]}});
        return chatml(messages);
      },
      special);
  EXPECT_EQ(shape.opener, kOpen);
  EXPECT_EQ(shape.user_role, (Tokens{1, 10}));
  const Tokens prompt = chatml({{3, {50}}, {1, {60, 61}}, {2, {70}}, {1, {62}}, {2, {}}});
  const MessageBorders borders = find_borders(shape, prompt);
  EXPECT_EQ(borders.first_user, 7U);
  EXPECT_EQ(borders.last_user, 20U);
  EXPECT_EQ(borders.after_last_user, 26U);
  EXPECT_EQ(borders.last_opener, 26U);
}

TEST(PromptShape, LearnsHeadersAroundTheRole) {
  // <open> role <close> \n text <end>
  const PromptShape shape = learn_shape(
      [](const std::vector<const char*>& texts) -> std::optional<Tokens> {
        Tokens tokens = {999};
        for (std::size_t i = 0; i < texts.size(); ++i) {
          tokens.insert(tokens.end(), {kOpen, i % 2 == 0 ? 1 : 2, kClose, 10, texts[i][0], kEndOfTurn});
        }
        return tokens;
      },
      special);
  EXPECT_EQ(shape.opener, kOpen);
  EXPECT_EQ(shape.user_role, (Tokens{1, kClose, 10}));
}

TEST(PromptShape, LearnsOneTokenForEachRole) {
  const PromptShape shape = learn_shape(
      [](const std::vector<const char*>& texts) -> std::optional<Tokens> {
        Tokens tokens = {999};
        for (std::size_t i = 0; i < texts.size(); ++i) {
          tokens.insert(tokens.end(), {i % 2 == 0 ? kOpen : kClose, texts[i][0]});
        }
        return tokens;
      },
      special);
  EXPECT_EQ(shape.opener, kOpen);
  EXPECT_TRUE(shape.user_role.empty());
}

TEST(PromptShape, KnowsNothingOfTextAlone) {
  EXPECT_FALSE(learn_shape(
                   [](const auto&) -> std::optional<Tokens> {
                     return Tokens{1, 2};
                   },
                   special)
                   .known());
  EXPECT_FALSE(
      learn_shape([](const auto&) -> std::optional<Tokens> { return std::nullopt; }, special).known());
}

}  // namespace
}  // namespace reprise::protocol
