// The model that a name in a request selects.
#include <gtest/gtest.h>

#include "protocol/service.h"

namespace reprise::protocol {
namespace {

TEST(ModelNames, StarMatchesAnyLettersButAColon) {
  const ModelCard card{.id = "qwen", .architecture = "a", .aliases = {"gpt-*", "mine", "*-latest", "a*z"}};
  for (const char* name : {"qwen", "mine", "gpt-5", "gpt-", "gpt-4o-mini", "any-latest", "az", "a-z"}) {
    EXPECT_TRUE(card.answers_to(name)) << name;
  }
  for (const char* name : {"", "gpt", "GPT-5", "qwen2", "min", "gpt-5:adapter", "a", "z", "latest"}) {
    EXPECT_FALSE(card.answers_to(name)) << name;
  }
  EXPECT_TRUE(card.is_called("mine"));
  EXPECT_FALSE(card.is_called("gpt-5"));
}

TEST(ModelNames, ANameComesBeforeAnotherModelsPattern) {
  const std::vector<ModelCard> cards{{.id = "first", .architecture = "a", .aliases = {"gpt-*"}},
                                     {.id = "gpt-oss", .architecture = "a"}};
  EXPECT_EQ(card_named(cards, "gpt-oss"), &cards[1]);
  EXPECT_EQ(card_named(cards, "gpt-5"), &cards[0]);
  EXPECT_EQ(card_named(cards, ""), &cards[0]);
  EXPECT_EQ(card_named(cards, "other"), nullptr);
}

}  // namespace
}  // namespace reprise::protocol
