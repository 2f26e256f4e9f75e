// Grammars, patterns and schemas that were damaged at random: each is refused in words or kept, within its bounds.

#include <gtest/gtest.h>

#include "tests/protocol/grammar/grammar_fixture.h"

namespace reprise::protocol::grammar {
namespace {

using Kind = Constraint::Kind;

class Damage {
 public:
  explicit Damage(std::uint64_t seed) : random_(seed) {}

  std::string damaged(std::string text, const std::vector<std::string>& pieces) {
    for (std::uint64_t i = 0; i < 1 + roll(6); ++i) {
      const std::size_t at = roll(text.size() + 1);
      switch (roll(5)) {
        case 0:
          text.erase(at, roll(8));
          break;
        case 1:
          text.insert(at, pieces[roll(pieces.size())]);
          break;
        case 2: {  // a part of itself, elsewhere
          const std::size_t from = roll(text.size() + 1);
          text.insert(at, text.substr(from, roll(24)));
          break;
        }
        case 3:
          if (at < text.size()) text[at] = static_cast<char>(roll(256));
          break;
        default:
          if (at < text.size()) std::swap(text[at], text[roll(text.size())]);
      }
    }
    return text;
  }
  std::uint64_t roll(std::uint64_t sides) { return random_() % sides; }
  std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_;
};

Limits small_limits() {
  Limits limits;
  limits.nodes = 20'000;
  limits.schemas = 2'000;
  limits.char_states = 3'000;
  limits.all_char_states = 20'000;
  limits.configurations = 400;
  limits.matcher_bytes = 400'000;
  return limits;
}

struct Tally {
  std::size_t kept = 0;
  std::size_t refused = 0;
};

// Compiles it, and goes some steps where it can be kept.
void try_out(const Constraint& constraint, Damage& damage, Tally& tally) {
  const Limits limits = small_limits();
  const auto program = compile(constraint, limits);
  if (!program.ok()) {
    ++tally.refused;
    EXPECT_FALSE(program.error().empty());
    return;
  }
  ++tally.kept;
  EXPECT_LE((*program)->nodes.size(), limits.nodes);
  const auto maker = std::make_shared<MaskMaker>(*program, small_vocabulary());
  ReplyConstraint reply(maker);
  try {
    for (int step = 0; step < 12; ++step) {
      const SharedMask mask = reply.mask();
      std::vector<TokenId> allowed;
      for (std::size_t id = 1; id < small_vocabulary()->token_count(); ++id) {
        if (mask->allows(static_cast<TokenId>(id))) allowed.push_back(static_cast<TokenId>(id));
      }
      EXPECT_TRUE(mask->count > 0 || mask->ends) << "a dead end";
      if (allowed.empty()) return;
      EXPECT_TRUE(reply.accept(allowed[damage.roll(allowed.size())]));
    }
  } catch (const GrammarError& error) {
    EXPECT_NE(std::string(error.what()).find("places at once"), std::string::npos) << error.what();
  }
}

TEST(GrammarFuzz, Gbnf) {
  const std::vector<std::string> seeds = {
      "root ::= expr (\"=\" | \"?\")\nexpr ::= term ([-+*/] term)*\nterm ::= [0-9]{1,3} | \"(\" expr \")\"\n",
      "root ::= item+ # list\nitem ::= \"- \" [^\\n]+ \"\\n\" | \"\\x41\\u00e9\" .? item{0,2}\n",
      "root ::= (\"a\"? \"b\"*){2,} | root2\nroot2 ::= \"\" | \"x\" root2 \"y\"\n"};
  const std::vector<std::string> pieces = {
      "::=",  "|",    "(",   ")",    "[",    "]",  "\"", "*",   "+",  "?",
      "{3,}", "{,9}", "{0}", "root", "item", "\n", "#",  "\\u", "[^", "{99999999999}",
      "."};
  for (const std::string& seed : seeds) EXPECT_EQ(refusal({.kind = Kind::kGbnf, .text = seed}), "") << seed;
  Tally tally;
  Damage damage(1);
  for (int i = 0; i < 1500; ++i) {
    try_out({.kind = Kind::kGbnf, .text = damage.damaged(seeds[damage.roll(seeds.size())], pieces)}, damage,
            tally);
  }
  EXPECT_GT(tally.kept, 50U);
  EXPECT_GT(tally.refused, 100U);
}

TEST(GrammarFuzz, Regex) {
  const std::vector<std::string> seeds = {"(yes|no|[0-9]{2,3})!?", "^[a-c]+(x|y(z|w)*){1,4}\\d\\.?$",
                                          "[^\\s\\\"]{3,}(?:ab|\\u00e9)*?", "(a|b)*a(a|b){6}"};
  const std::vector<std::string> pieces = {
      "(", ")", "[",  "]",   "|",   "*",   "+",   "?",      "{2,5}", "{5}",       "^",
      "$", ".", "\\", "\\d", "\\w", "(?=", "\\1", "\\p{L}", "[a-",   "{1,20000}", "\\u{1F600}"};
  for (const std::string& seed : seeds) EXPECT_EQ(refusal({.kind = Kind::kRegex, .text = seed}), "") << seed;
  Tally tally;
  Damage damage(2);
  for (int i = 0; i < 1500; ++i) {
    try_out({.kind = Kind::kRegex, .text = damage.damaged(seeds[damage.roll(seeds.size())], pieces)}, damage,
            tally);
  }
  EXPECT_GT(tally.kept, 100U);
  EXPECT_GT(tally.refused, 100U);
}

TEST(GrammarFuzz, Schema) {
  const std::vector<std::string> seeds = {
      R"({"type":"object","properties":{"a":{"type":"integer","minimum":3},"b":{"$ref":"#"}},"required":["a"],"additionalProperties":false})",
      R"({"oneOf":[{"type":"string","pattern":"^a+$","maxLength":9},{"type":"array","items":{"enum":[1,"x",null]},"maxItems":3}]})",
      R"({"allOf":[{"not":{"required":["k"]}},{"if":{"properties":{"t":{"const":"a"}}},"then":{"minProperties":1},"else":{"$ref":"#/$defs/d"}}],"$defs":{"d":{"anyOf":[{"$ref":"#/$defs/d"},{"type":"number","multipleOf":0.5}]}}})",
      R"({"type":"object","patternProperties":{"^x":{"oneOf":[{"$ref":"#"},{"type":"null"}]}},"propertyNames":{"maxLength":4},"dependentRequired":{"x":["xy"]},"maxProperties":2})"};
  const std::vector<std::string> words = {"\"type\":",
                                          "\"oneOf\":[",
                                          "\"anyOf\":",
                                          "\"not\":",
                                          "{",
                                          "}",
                                          "[",
                                          "]",
                                          ",",
                                          "\"$ref\":\"#\",",
                                          "\"object\"",
                                          "-1",
                                          "1e99",
                                          "true",
                                          "false",
                                          "null",
                                          "\"items\":",
                                          "\"minItems\":",
                                          "\"uniqueItems\":true,",
                                          "\"if\":",
                                          "\"const\":",
                                          "\"format\":\"date\",",
                                          "\"required\":[\"z\"],"};
  for (const std::string& seed : seeds) EXPECT_EQ(refusal(schema_of(seed)), "") << seed;
  Tally tally;
  Damage damage(3);
  std::size_t parsed = 0;
  for (int i = 0; i < 6000; ++i) {
    auto json = Json::parse(damage.damaged(seeds[damage.roll(seeds.size())], words));
    if (!json.ok()) continue;
    ++parsed;
    try_out({.kind = Kind::kJsonSchema, .json = std::move(*json)}, damage, tally);
  }
  EXPECT_GT(parsed, 400U);
  EXPECT_GT(tally.kept, 100U);
  EXPECT_GT(tally.refused, 50U);
}

// What is kept stays within its bound, whatever is asked for.
TEST(GrammarFuzz, MemoryStaysWithinItsBound) {
  const Limits limits = small_limits();
  const auto program = compile(
      schema_of(
          R"({"type":"array","items":{"type":"object","properties":{"a":{"type":"string","maxLength":300},
        "b":{"type":"number"},"c":{}}}})"),
      limits);
  ASSERT_TRUE(program.ok());
  const auto maker = std::make_shared<MaskMaker>(*program, small_vocabulary());
  std::mt19937_64 random(4);
  const std::size_t of_one_mask = 200'000;  // the bound is looked at between two
  for (int i = 0; i < 30; ++i) {
    static_cast<void>(random_reply(maker, random));
    EXPECT_LT(maker->bytes(), limits.matcher_bytes + (*program)->bytes() + of_one_mask);
  }
}

}  // namespace
}  // namespace reprise::protocol::grammar
