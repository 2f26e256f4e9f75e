// Reasoning budgets: where and with which tokens they close a reply's reasoning.

#include "protocol/chat/reasoning_budget.h"

#include <gtest/gtest.h>

namespace reprise::protocol::budget_test {
namespace {

constexpr TokenId kOpen = 1000, kClose = 1001, kBos = 1002, kSpace = 1003;

constexpr const char* kTemplate = R"({%- for m in messages -%}
<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif -%})";
// Reasoning without blank lines around its end tag.
constexpr const char* kDense =
    "{% for m in messages %}{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content }}{% endfor %}";

std::string bytes_of(TokenId token) {
  switch (token) {
    case kOpen:
      return "<think>";
    case kClose:
      return "</think>";
    case kBos:
      return "<s>";
    case kSpace:
      return " ";
    default:
      return std::string(1, static_cast<char>(token));
  }
}

/// Each tag is a token, and so is every other byte.
TokenList encode(const std::string& text) {
  TokenList tokens;
  for (std::size_t at = 0; at < text.size();) {
    TokenId token = static_cast<unsigned char>(text[at]);
    for (const TokenId mark : {kOpen, kClose}) {
      if (text.compare(at, bytes_of(mark).size(), bytes_of(mark)) == 0) token = mark;
    }
    tokens.push_back(token);
    at += bytes_of(token).size();
  }
  return tokens;
}
/// Like tokenizers that add a prefix to every text.
TokenList encode_beginning(const std::string& text) {
  TokenList tokens = {kBos, kSpace};
  for (const TokenId token : encode(text)) {
    tokens.push_back(token);
    if (token == kClose) tokens.push_back(kSpace);
  }
  return tokens;
}

ReasoningBudget budget_of(std::string_view tail, std::uint64_t tokens, const char* source = kTemplate,
                          TokenList (*encoder)(const std::string&) = encode) {
  auto format = ChatFormat::make(
      source, {.encode = encoder, .is_special = [](TokenId token) { return token >= kOpen; }});
  EXPECT_TRUE(format.ok());
  return {*format, bytes_of, tail, tokens};
}
constexpr const char* kOpened = "<|im_start|>assistant\n<think>\n";
constexpr const char* kNotOpened = "<|im_start|>assistant\n";

void note(ReasoningBudget& budget, const std::string& text) {
  for (const TokenId token : encode(text)) budget.note(token);
}

/// Returns the text that is forced now; checks that no token before each could be chosen freely.
std::string forced_text(ReasoningBudget& budget, std::uint64_t seen) {
  std::string text;
  while (const auto token = budget.forced()) {
    EXPECT_EQ(budget.free_tokens(), seen++);
    EXPECT_EQ(budget.forced(), token) << "asking changes nothing";
    text += bytes_of(*token);
    budget.note(*token);
  }
  return text;
}

TEST(ReasoningBudget, ClosesReasoningWhenItIsUsedUp) {
  ReasoningBudget budget = budget_of(kOpened, 3);
  for (const char c : std::string("abc")) {
    EXPECT_EQ(budget.free_tokens(), 3u);
    EXPECT_EQ(budget.forced(), std::nullopt);
    budget.note(c);
  }
  EXPECT_EQ(budget.ended_by(), ReasoningEnd::kModel);
  EXPECT_EQ(forced_text(budget, 3), "\n</think>\n\n");
  EXPECT_EQ(budget.ended_by(), ReasoningEnd::kBudget);
  note(budget, "x");
  EXPECT_EQ(budget.free_tokens(), ReasoningBudget::kUnlimited) << "the answer has begun";
}

TEST(ReasoningBudget, LetsTheModelCloseReasoningBefore) {
  ReasoningBudget budget = budget_of(kOpened, 4);
  note(budget, "ab</think>");
  EXPECT_EQ(budget.forced(), std::nullopt);
  EXPECT_EQ(budget.free_tokens(), 3u + 1 + 2) << "another block may begin, and has what is left";
  note(budget, "\n\nhi");
  EXPECT_EQ(budget.free_tokens(), ReasoningBudget::kUnlimited);
  EXPECT_EQ(budget.ended_by(), ReasoningEnd::kModel);
}

TEST(ReasoningBudget, ZeroClosesReasoningAtOnce) {
  ReasoningBudget budget = budget_of(kOpened, 0);
  EXPECT_EQ(budget.free_tokens(), 0u);
  EXPECT_EQ(forced_text(budget, 0), "\n</think>\n\n") << "as the template writes a block with nothing in it";
  EXPECT_EQ(budget.ended_by(), ReasoningEnd::kBudget);
}

TEST(ReasoningBudget, CountsFromWhereTheModelOpensReasoning) {
  ReasoningBudget budget = budget_of(kNotOpened, 2);
  EXPECT_EQ(budget.free_tokens(), 3u) << "the first token may be the mark";
  note(budget, "<think>a");
  EXPECT_EQ(budget.free_tokens(), 3u);
  note(budget, "b");
  EXPECT_EQ(forced_text(budget, 3), "\n</think>\n\n");
  // It opens reasoning again.
  note(budget, "<think>");
  EXPECT_EQ(forced_text(budget, 3 + 4 + 1), "\n\n</think>\n\n") << "with nothing in it";
}

TEST(ReasoningBudget, WaitsForMarksOfSeveralTokens) {
  ReasoningBudget budget = budget_of(kNotOpened, 1);
  std::uint64_t seen = 0;
  for (const char c : std::string("<think")) {
    EXPECT_EQ(budget.free_tokens(), seen + 2);
    budget.note(c);
    ++seen;
  }
  budget.note('>');
  EXPECT_EQ(budget.free_tokens(), seen + 2);
  EXPECT_EQ(budget.forced(), std::nullopt);
  budget.note('a');
  EXPECT_EQ(forced_text(budget, seen + 2), "\n</think>\n\n");
}

TEST(ReasoningBudget, RepliesWithoutReasoningAreFree) {
  ReasoningBudget budget = budget_of(kNotOpened, 0);
  EXPECT_EQ(budget.free_tokens(), 1u);
  note(budget, "Hi <think>");
  EXPECT_EQ(budget.free_tokens(), ReasoningBudget::kUnlimited);
  EXPECT_EQ(budget.forced(), std::nullopt);
}

TEST(ReasoningBudget, CompletesWhatTheReasoningHasBegun) {
  ReasoningBudget mark = budget_of(kOpened, 6);
  for (const char c : std::string("a</thi")) mark.note(c);
  EXPECT_EQ(forced_text(mark, 6), "nk>\n\n");
  ReasoningBudget line = budget_of(kOpened, 2);
  note(line, "a\n");
  EXPECT_EQ(forced_text(line, 2), "</think>\n\n");
}

TEST(ReasoningBudget, ClosesAsTheTemplateDoes) {
  ReasoningBudget budget = budget_of("assistant<think>", 1, kDense);
  note(budget, "a");
  EXPECT_EQ(forced_text(budget, 1), "</think>");
}

TEST(ReasoningBudget, LeavesOutWhatEncodersPutInFront) {
  ReasoningBudget budget = budget_of(kOpened, 1, kTemplate, encode_beginning);
  note(budget, "a");
  EXPECT_EQ(forced_text(budget, 1), "\n</think>\n\n");
}

TEST(ReasoningBudget, EndNowFollowsEarlierTokens) {
  ReasoningBudget budget = budget_of(kOpened, ReasoningBudget::kUnlimited);
  note(budget, "abc");
  EXPECT_EQ(budget.free_tokens(), ReasoningBudget::kUnlimited);
  budget.end_now();
  EXPECT_EQ(budget.forced(), TokenId{'\n'});
  note(budget, "de");  // chosen before the budget was exceeded
  EXPECT_EQ(forced_text(budget, 5), "\n</think>\n\n");
  EXPECT_EQ(budget.ended_by(), ReasoningEnd::kClient);

  ReasoningBudget closed = budget_of(kOpened, ReasoningBudget::kUnlimited);
  note(closed, "a");
  closed.end_now();
  EXPECT_EQ(closed.forced(), TokenId{'\n'});
  note(closed, "</think>");  // without being forced
  EXPECT_EQ(closed.forced(), std::nullopt);
  EXPECT_EQ(closed.ended_by(), ReasoningEnd::kModel);
}

}  // namespace
}  // namespace reprise::protocol::budget_test
