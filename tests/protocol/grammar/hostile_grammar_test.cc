// Grammars that demand too much work: each is refused with the limit that it exceeds, measured in steps and
// bytes, never by time.

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "tests/protocol/grammar/grammar_fixture.h"
#include "tests/small_stack.h"

namespace reprise::protocol::grammar {
namespace {

using Kind = Constraint::Kind;

std::string repeated(std::string_view piece, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += piece;
  return text;
}

// A request's limits without the clock, and with few steps to keep tests short.
Limits without_clock(std::uint64_t steps = 3'000'000) {
  Limits limits;
  limits.compile_seconds = 0;
  limits.compile_steps = steps;
  limits.mask_steps = steps;
  return limits;
}

std::string refusal_on_small_stack(const Constraint& constraint, const Limits& limits = without_clock()) {
  std::string why;
  on_small_stack([&] { why = refusal(constraint, limits); });
  return why;
}

Constraint regex_of(std::string text) {
  return {.kind = Kind::kRegex, .text = std::move(text)};
}
Constraint gbnf_of(std::string text) {
  return {.kind = Kind::kGbnf, .text = std::move(text)};
}
Constraint schema_with(const char* keyword, Json value) {
  Json schema = Json::object();
  schema[keyword] = std::move(value);
  return {.kind = Kind::kJsonSchema, .json = std::move(schema)};
}

Constraint lark_of(std::string text) {
  return {.kind = Kind::kLark, .text = std::move(text)};
}

bool names_a_limit(const std::string& refusal) {
  return refusal.find("more than ") != std::string::npos;
}

TEST(HostileGrammar, QuantifiersOfQuantifiers) {
  for (const char* quantifier : {"*", "?", "{1}", "{0,1}", "*?"}) {
    const std::string pattern = "a" + repeated(quantifier, 200'000);
    for (const Constraint& constraint : {regex_of(pattern), schema_with("pattern", pattern)}) {
      const std::string why = refusal_on_small_stack(constraint);
      EXPECT_NE(why.find("more than 256 brackets and repetitions within each other"), std::string::npos)
          << quantifier << ": " << why;
    }
  }
  // Brackets and quantifiers share a limit.
  const std::string mixed = repeated("(", 200) + "a" + repeated("{2})*", 200);
  EXPECT_TRUE(names_a_limit(refusal_on_small_stack(regex_of(mixed))));
  EXPECT_EQ(refusal_on_small_stack(regex_of(repeated("(", 100) + "a" + repeated(")*", 100))), "");
}

TEST(HostileGrammar, ChainsOfReferences) {
  for (const char* wrapped :
       {"{\"$ref\":\"%\"}", "{\"allOf\":[{\"$ref\":\"%\"}]}", "{\"not\":{\"$ref\":\"%\"}}",
        "{\"anyOf\":[{\"$ref\":\"%\"}]}", "{\"oneOf\":[{\"$ref\":\"%\"},{\"type\":\"null\"}]}"}) {
    Json schema = Json::object();
    schema["$ref"] = "#/$defs/d0";
    Json::Object definitions;
    constexpr int kLinks = 45'000;
    for (int i = 0; i < kLinks; ++i) {
      std::string link = wrapped;
      link.replace(link.find('%'), 1, "#/$defs/d" + std::to_string(i + 1));
      definitions.push_back({"d" + std::to_string(i), *Json::parse(link)});
    }
    definitions.push_back({"d" + std::to_string(kLinks), *Json::parse("{\"type\":\"string\"}")});
    schema["$defs"] = Json(std::move(definitions));
    const std::string why = refusal_on_small_stack({.kind = Kind::kJsonSchema, .json = std::move(schema)});
    EXPECT_NE(why.find("nested too deeply"), std::string::npos) << wrapped << ": " << why;
  }
}

TEST(HostileGrammar, SmallLarkGrammarsThatExpand) {
  std::string states;
  for (int i = 0; i < 80; ++i) states += "/(a|b)*a(a|b){" + std::to_string(11 + i % 2) + "}/ ";
  std::string terminals = "start: T0\n";
  for (int i = 0; i < 150; ++i)
    terminals +=
        "T" + std::to_string(i) + ": T" + std::to_string(i + 1) + " T" + std::to_string(i + 1) + "\n";
  terminals += "T150: \"x\"\n";
  const std::vector<std::string> expanding = {"start: " + states, "start: /((a{9999}){9999}){9999}/",
                                              "start: \"a\"~9999999",
                                              "start: " + repeated("(", 300) + "\"a\"" + repeated(")", 300)};
  for (const std::string& text : expanding) {
    ASSERT_LT(text.size(), 4096U);
    EXPECT_TRUE(names_a_limit(refusal_on_small_stack(lark_of(text)))) << text.substr(0, 80);
  }
  // Long, but unreachable parts cost nothing.
  ASSERT_LT(terminals.size(), 4096U);
  EXPECT_EQ(refusal_on_small_stack(lark_of(terminals)), "");
  // Chains of terminals and brackets share a limit.
  std::string chain = "start: T0\n";
  for (int i = 0; i < 300; ++i) chain += "T" + std::to_string(i) + ": (T" + std::to_string(i + 1) + ")\n";
  EXPECT_TRUE(names_a_limit(refusal_on_small_stack(lark_of(chain + "T300: \"x\"\n"))));
  // Without an end of line, definition or bracket.
  for (const char* piece :
       {"(", "[", "\"a\" ", "a:", "a: b\n", "%ignore \"a\"\n", "/a/ ", "~1", "|", "// ", "\\\n"}) {
    refusal_on_small_stack(lark_of("start: " + repeated(piece, 100'000)));
  }
}

TEST(HostileGrammar, PartsThatMakeNothingAreCounted) {
  for (const char* pattern : {"(((){20000}){20000}){20000}", "((((x{0}){9999}){9999}){9999}){9999}"}) {
    EXPECT_EQ(refusal_on_small_stack(regex_of(pattern)), "compiling it takes more than 3000000 steps")
        << pattern;
  }
}

TEST(HostileGrammar, SchemasThatFanOut) {
  const auto fan = [](const std::string& keyword, const std::string& before, const std::string& after) {
    std::string text = "{\"$defs\":{";
    for (int level = 0; level < 9; ++level) {
      text += "\"l" + std::to_string(level) + "\":{\"" + keyword + "\":[";
      for (int i = 0; i < 10; ++i)
        text += std::string(i == 0 ? "" : ",") + "{\"$ref\":\"#/$defs/l" + std::to_string(level + 1) + "\"}";
      text += "]},";
    }
    return schema_of(text + "\"l9\":{\"minLength\":1}}," + before + "{\"$ref\":\"#/$defs/l0\"}" + after +
                     "}");
  };
  for (const auto& [before, after] :
       {std::pair{"\"not\":", ""}, std::pair{"\"properties\":{\"a\":{},\"b\":{}},\"propertyNames\":", ""},
        std::pair{"\"oneOf\":[{\"type\":\"string\"},", "]"},
        std::pair{"\"if\":", ",\"then\":{},\"else\":false"}}) {
    for (const char* keyword : {"allOf", "anyOf", "oneOf"}) {
      const std::string why = refusal_on_small_stack(fan(keyword, before, after));
      // Some are feasible; none may take long, measured in steps.
      EXPECT_TRUE(why.empty() || names_a_limit(why) || why.starts_with("not:") || why.starts_with("oneOf:") ||
                  why.starts_with("propertyNames:"))
          << keyword << before << why;
    }
  }
  EXPECT_EQ(refusal_on_small_stack(fan("allOf", "\"not\":", "")),
            "compiling it takes more than 3000000 steps");
}

TEST(HostileGrammar, ChainsOfRulesTakeTheirTimeOnce) {
  const auto chain = [](int rules, const char* last) {
    std::string text = "root ::= r0\n";
    for (int i = 0; i < rules; ++i)
      text +=
          "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + (i % 2 == 0 ? "" : " | \"y\"") + "\n";
    return text + "r" + std::to_string(rules) + " ::= " + last + "\n";
  };
  EXPECT_EQ(refusal_on_small_stack(gbnf_of(chain(30'000, "\"x\""))), "");
  EXPECT_EQ(refusal_on_small_stack(gbnf_of(chain(30'000, "\"x\"?"))), "");
  EXPECT_TRUE(refusal_on_small_stack(gbnf_of(chain(30'000, "r7"))).ends_with("begins with itself"));
  EXPECT_TRUE(lets_through(gbnf_of(chain(3'000, "\"x\"")), "x"));
}

TEST(HostileGrammar, LargeClassesAreKeptOnce) {
  std::string ranges;
  for (std::uint32_t c = 0x4000; c < 0x4000 + 60'000; c += 2)
    append_utf8(ranges, c < 0xD800 ? c : c + 0x2000);
  Limits limits = without_clock();
  limits.compile_bytes = 64u << 20;
  for (const std::string& pattern : {"[" + ranges + "]{20000}", "([" + ranges + "]{100}){100}"}) {
    const std::string why = refusal_on_small_stack(regex_of(pattern), limits);
    EXPECT_TRUE(names_a_limit(why)) << why;
  }
  EXPECT_EQ(refusal_on_small_stack(regex_of("[" + ranges + "]{3}"), limits), "");
}

// Keywords whose values have the wrong type.
TEST(HostileGrammar, WrongKindsAreRefused) {
  for (const char* schema :
       {R"({"not":{"enum":5}})", R"({"not":{"required":5}})", R"({"not":{"properties":5}})",
        R"({"not":{"allOf":5}})", R"({"not":{"anyOf":{}}})", R"({"prefixItems":{"a":true}})",
        R"({"prefixItems":{"a":true},"const":[1]})", R"({"enum":["x"],"minLength":"a"})",
        R"({"enum":[[1]],"maxItems":"a"})", R"({"enum":[{"a":1}],"minProperties":[]})"}) {
    EXPECT_NE(refusal_on_small_stack(schema_of(schema)), "") << schema;
  }
  // Clients cannot use the internal keywords for negation.
  for (const char* schema :
       {"{\"type\":\"null\",\"\\u0001not enum\":5}", "{\"type\":\"null\",\"\\u0001not pattern\":5}",
        R"({"not":{"minLength":9223372036854775807}})"}) {
    static_cast<void>(refusal_on_small_stack(schema_of(schema)));
  }
}

TEST(HostileGrammar, AClientThatLeavesEndsTheWork) {
  const Constraint endless = regex_of("(((){20000}){20000}){20000}");
  int asked = 0;
  const auto program = compile(endless, without_clock(UINT64_MAX - 1), [&] { return ++asked < 5; });
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error(), "the client has disconnected");
  EXPECT_EQ(asked, 5);
}

TEST(HostileGrammar, AnErrorOfTheBudgetIsNotTriedAgain) {
  CallsConstraint calls;  // its schema is optional, but no budget is left without it
  const Json endless = Json{{"type", "string"}, {"pattern", "(((){20000}){20000}){20000}"}};
  const Json parameters = Json{{"type", "object"}, {"properties", Json{{"a", endless}}}};
  calls.tools.push_back({.name = "f", .before = {"f"}, .parameters = parameters});
  EXPECT_EQ(refusal({.kind = Kind::kCalls, .calls = calls}, without_clock()),
            "compiling it takes more than 3000000 steps");
}

// -- masks

std::string mask_error(const Constraint& constraint, const Limits& limits) {
  const auto program = compile(constraint, limits);
  if (!program.ok()) return program.error();
  try {
    const auto maker = std::make_shared<MaskMaker>(*program, small_vocabulary());
    ReplyConstraint reply(maker);
    try {
      static_cast<void>(reply.mask());
    } catch (const GrammarError&) {
      EXPECT_LT(maker->bytes(), (*program)->bytes() + (1u << 20)) << "what failed is kept";
      throw;
    }
    return "";
  } catch (const GrammarError& error) {
    return error.what();
  }
}

TEST(HostileGrammar, MasksOfManyLocationsAreBounded) {
  std::string without_one = "root ::= ";
  for (int i = 0; i < 2000; ++i) {
    const char letter = static_cast<char>('a' + i % 26);
    without_one += std::string(i == 0 ? "" : " | ") + "[a-" +
                   (letter == 'a' ? "a" : std::string(1, static_cast<char>(letter - 1))) +
                   static_cast<char>(letter == 'z' ? 'z' : letter + 1) + "-z]* \"" + std::to_string(i) + "\"";
  }
  Limits limits = without_clock();
  limits.mask_steps = 100'000;
  EXPECT_EQ(mask_error(gbnf_of(without_one), limits), "making a mask takes more than 100000 steps");
  limits = Limits();
  limits.mask_bytes = 1u << 20;
  EXPECT_EQ(mask_error(gbnf_of(without_one), limits), "making a mask needs more than 1 MiB of memory");
  const std::string stars = "root ::= " + repeated("[a-z]* ", 15'000);
  EXPECT_EQ(mask_error(gbnf_of(stars), Limits()),
            "the grammar is too ambiguous: more than 20000 alternatives at once");
}

TEST(HostileGrammar, MasksOfNestedCountsInLarkAreBounded) {
  std::string nested = "\"a\"?";
  for (int i = 0; i < 4; ++i) nested = "(" + nested + ")~0..1000";
  EXPECT_TRUE(names_a_limit(mask_error(lark_of("start: " + nested), Limits())));
}

TEST(HostileGrammar, EndingsOfCountedPartsWithoutTextAreBounded) {
  std::string nested = "\"a\"?";
  for (int i = 0; i < 5; ++i) nested = "(" + nested + ")~1000";
  const auto program = compile(lark_of("start: \"xyz\" " + nested), Limits());
  ASSERT_TRUE(program.ok()) << program.error();
  ReplyConstraint reply(std::make_shared<MaskMaker>(*program, small_vocabulary()), 6);  // tokens
  EXPECT_GT(reply.mask()->count, 0U);  // its completion would be searched in 1000^5 parts
}

TEST(HostileGrammar, MasksOfManyStringsAndMembersAreBounded) {
  Json many = Json::array();
  for (int i = 0; i < 300; ++i)
    many.push_back(Json{{"type", "string"}, {"pattern", "^a{" + std::to_string(i) + "}b"}});
  Limits limits = without_clock(30'000'000);
  limits.mask_steps = 150'000;
  const auto program = compile(schema_with("anyOf", std::move(many)), limits);
  ASSERT_TRUE(program.ok()) << program.error();
  ReplyConstraint reply(std::make_shared<MaskMaker>(*program, small_vocabulary()));
  static_cast<void>(reply.mask());
  ASSERT_TRUE(reply.accept(static_cast<TokenId>(2 + '"')));
  EXPECT_THROW(static_cast<void>(reply.mask()), GrammarError);
  // Each member requires others.
  Json schema = *Json::parse(R"({"type":"object","maxProperties":3000,"additionalProperties":false})");
  Json::Object properties;
  for (int i = 0; i < 3000; ++i) properties.push_back({"p" + std::to_string(i), Json(true)});
  schema["properties"] = Json(std::move(properties));
  Limits few = without_clock(30'000'000);
  few.mask_steps = 10'000;
  const auto object = compile({.kind = Kind::kJsonSchema, .json = std::move(schema)}, few);
  ASSERT_TRUE(object.ok()) << object.error();
  ReplyConstraint members(std::make_shared<MaskMaker>(*object, small_vocabulary()));
  const auto some_masks = [&] {
    for (const char byte : std::string("{\"p1")) {
      static_cast<void>(members.mask());
      ASSERT_TRUE(members.accept(static_cast<TokenId>(2 + byte)));
    }
  };
  EXPECT_THROW(some_masks(), GrammarError);
}

TEST(HostileGrammar, AMaskThatNobodyWantsIsLeftOff) {
  const std::string wide = "root ::= (" + repeated("[a-z]* \"x\" | ", 2000) + "\"\")";
  const auto program = compile(gbnf_of(wide), without_clock(UINT64_MAX - 1));
  ASSERT_TRUE(program.ok()) << program.error();
  ReplyConstraint reply(std::make_shared<MaskMaker>(*program, small_vocabulary()));
  EXPECT_THROW(static_cast<void>(reply.mask([] { return false; })), GrammarError);
  EXPECT_GT(reply.mask()->count, 0U);  // a later caller computes it
}

}  // namespace
}  // namespace reprise::protocol::grammar
