// Replies are completed before their limit; also white space, and the keys of arguments.

#include <gtest/gtest.h>

#include <functional>

#include "tests/protocol/grammar/grammar_fixture.h"
#include "tests/protocol/grammar/json_validator.h"

namespace reprise::protocol::grammar {
namespace {

constexpr const char* kPerson = R"({"type": "object", "properties": {"name": {"type": "string"},
  "age": {"type": "integer", "minimum": 18}, "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2}},
  "required": ["name", "age", "tags"], "additionalProperties": false})";

std::shared_ptr<MaskMaker> maker_of(const Constraint& constraint) {
  auto program = compile(constraint);
  if (!program.ok()) throw std::runtime_error(program.error());
  return std::make_shared<MaskMaker>(*program, small_vocabulary());
}

struct Written {
  std::string text{};
  std::size_t tokens = 0;
  bool stopped = false;
  bool whole = false;
  bool narrowed = false;
};

using Choose = std::function<TokenId(const std::vector<TokenId>&)>;

Written write(ReplyConstraint reply, std::size_t limit, const Choose& choose) {
  Written written;
  while (written.tokens < limit && !written.stopped) {
    const SharedMask mask = reply.mask();
    if (mask->ends) break;
    std::vector<TokenId> allowed;
    for (std::size_t id = 0; id < small_vocabulary()->size(); ++id) {
      if (mask->allows(static_cast<TokenId>(id))) allowed.push_back(static_cast<TokenId>(id));
    }
    if (allowed.empty() || allowed.size() != mask->count)
      throw std::logic_error("a wrong mask behind " + written.text);
    const TokenId chosen = choose(allowed);
    ++written.tokens;
    written.stopped = chosen == kStop;
    if (written.stopped) break;
    if (!reply.accept(chosen)) throw std::logic_error("an allowed token is refused behind " + written.text);
    written.text += small_vocabulary()->token(chosen).bytes;
  }
  written.whole = reply.may_end();
  written.narrowed = reply.is_narrowed();
  return written;
}

// Never ends a string, a number or a list.
TokenId goes_on(const std::vector<TokenId>& allowed) {
  for (const char* wish : {"a", "1", ",", ", \""}) {
    for (const TokenId id : allowed) {
      if (static_cast<std::size_t>(id) < small_vocabulary()->token_count() &&
          small_vocabulary()->token(id).bytes == wish)
        return id;
    }
  }
  return allowed.back();
}

TEST(Closing, ARepliesLastTokensAreItsEnd) {
  const Constraint constraint = schema_of(kPerson);
  for (std::size_t limit = 36; limit < 90; ++limit) {
    const Written written = write(ReplyConstraint(maker_of(constraint), limit), limit, goes_on);
    EXPECT_LE(written.tokens, limit);
    EXPECT_TRUE(written.whole && written.narrowed) << limit << ": " << written.text;
    const auto parsed = Json::parse(written.text, {}, {.python = true});
    ASSERT_TRUE(parsed.ok()) << limit << ": " << written.text;
    EXPECT_TRUE(validates(constraint.json, constraint.json, *parsed)) << limit << ": " << written.text;
    EXPECT_FALSE(write(ReplyConstraint(maker_of(constraint)), limit, goes_on).whole)
        << "it would not end by itself";
  }
}

TEST(Closing, MostOfTheLimitIsUsed) {
  const Written written = write(ReplyConstraint(maker_of(schema_of(kPerson)), 80), 80, goes_on);
  EXPECT_GE(written.tokens, 60U) << written.text;
}

TEST(Closing, ForcedCallsAndReasoningAreClosed) {
  CallsConstraint calls;
  calls.tools.push_back({.name = "add",
                         .before = {"add\", \"arguments\":"},
                         .after = {"}", "<call>"},
                         .parameters = *Json::parse(kPerson)});
  const Constraint call{.kind = Constraint::Kind::kCalls, .calls = calls};
  const Written called = write(ReplyConstraint(maker_of(call), 120), 120, goes_on);
  EXPECT_TRUE(called.whole) << called.text;
  EXPECT_TRUE(called.text.ends_with("}}<call>")) << called.text;
  Constraint thinking = schema_of(kPerson);
  thinking.think_close = "</think>";
  const Written thought = write(ReplyConstraint(maker_of(thinking), 120), 120, goes_on);
  EXPECT_TRUE(thought.whole) << thought.text;
  const std::size_t close = thought.text.find("</think>");
  ASSERT_NE(close, std::string::npos) << thought.text;
  EXPECT_TRUE(Json::parse(thought.text.substr(close + 8)).ok()) << thought.text;
}

TEST(Closing, PatternsGrammarsAndChoicesToo) {
  for (const Constraint& constraint :
       {Constraint{.kind = Constraint::Kind::kRegex, .text = "(ab)+c{3}"},
        Constraint{.kind = Constraint::Kind::kGbnf,
        .text = "root ::= \"[\" item (\",\" item)* \"]\"\nitem ::= \"a\" item | \"bc\""},
        Constraint{.kind = Constraint::Kind::kLark, .text = "start: \"x\" /[a-z]+/ \";\""},
        schema_of(
            R"({"type": "array", "items": {"type": "string", "pattern": "^[a-z]+0{3}$"}, "minItems": 1})"),
        schema_of(
            R"({"type": "object", "patternProperties": {"^a+b$": {"type": "integer"}}, "minProperties": 1,
                     "additionalProperties": false})")}) {
    for (std::size_t limit = 24; limit < 40; ++limit) {
      const Written written = write(ReplyConstraint(maker_of(constraint), limit), limit, goes_on);
      EXPECT_TRUE(written.whole) << limit << ": " << written.text;
    }
  }
}

TEST(Closing, FarFromTheLimitNothingChanges) {
  const auto maker = maker_of(schema_of(kPerson));
  for (const std::size_t limit : {100'000U, 3U}) {  // 3: nothing fits, and the reply is truncated
    ReplyConstraint free(maker);
    ReplyConstraint limited(maker, limit);
    for (int step = 0; step < 40; ++step) {
      const SharedMask mask = free.mask();
      ASSERT_EQ(limited.mask(), mask) << step;
      TokenId chosen = 0;
      while (chosen == kStop || !mask->allows(chosen)) ++chosen;
      ASSERT_TRUE(free.accept(chosen) && limited.accept(chosen));
    }
    EXPECT_FALSE(limited.is_narrowed());
  }
}

TEST(Closing, CachedMasksGiveTheSameEndings) {
  const auto warm = maker_of(schema_of(kPerson));
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const auto at_random = [seed] {
      return [random = std::mt19937_64(seed)](const std::vector<TokenId>& allowed) mutable {
        return allowed[random() % allowed.size()];
      };
    };
    const std::size_t limit = 40 + seed % 7;
    const Written cold = write(ReplyConstraint(maker_of(schema_of(kPerson)), limit), limit, at_random());
    EXPECT_TRUE(cold.whole) << cold.text;
    EXPECT_EQ(write(ReplyConstraint(warm, limit), limit, at_random()).text, cold.text);
    EXPECT_EQ(write(ReplyConstraint(warm, limit), limit, at_random()).text, cold.text)
        << "all masks are known";
  }
}

TEST(Closing, KnownMasksAreThoseThatAreMade) {
  const auto maker = maker_of(schema_of(kPerson));
  for (int round = 0; round < 2; ++round) {
    ReplyConstraint reply(maker, 60);
    for (std::size_t step = 0; step < 60; ++step) {
      const SharedMask known = reply.mask_if_known();
      const SharedMask made = reply.mask();
      if (known != nullptr) {
        EXPECT_EQ(known->bits, made->bits) << step;
      }
      if (made->ends || made->count == 0) break;
      std::vector<TokenId> allowed;
      for (std::size_t id = 1; id < small_vocabulary()->token_count(); ++id) {
        if (made->allows(static_cast<TokenId>(id))) allowed.push_back(static_cast<TokenId>(id));
      }
      if (allowed.empty()) break;
      ASSERT_TRUE(reply.accept(goes_on(allowed)));
    }
  }
}

TEST(Closing, AReplyThatLeavesItsClosingTextIsCut) {
  Constraint thinking = schema_of(R"({"type": "integer"})");
  thinking.think_close = "</think>";
  const auto maker = maker_of(thinking);
  ReplyConstraint reply(maker, 30);
  for (int i = 0; i < 21; ++i) {
    static_cast<void>(reply.mask());
    reply.note(static_cast<TokenId>(2 + 'x'));
  }
  static_cast<void>(reply.mask());
  for (const char byte : std::string("\n\n</t")) reply.note(static_cast<TokenId>(2 + byte));  // not by a mask
  EXPECT_GT(reply.mask()->count, 0U);
}

// -- white space

Constraint spaced(const char* pattern) {
  Constraint constraint =
      schema_of(R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "array",
    "items": {"type": "integer"}}}, "required": ["a"]})");
  if (pattern != nullptr) constraint.whitespace = pattern;
  return constraint;
}

TEST(JsonWhitespace, IsCompactByDefault) {
  for (const char* text : {R"({"a":1})", R"({"a": 1, "b": [1, 2,3]})", R"({"a":1,"b":[]})"}) {
    EXPECT_TRUE(lets_through(spaced(nullptr), text)) << text;
  }
  for (const char* text :
       {R"({ "a":1})", R"({"a":  1})", R"({"a" :1})", R"({"a":1 })", R"({"a":1 , "b":[]})", "{\n\"a\":1}",
        "{\"a\":\n1}", "{\"a\":1\n}", R"({"a":1,  "b":[]})", R"({"a":1,"b":[ 1]})", "{\"a\":\t1}"}) {
    EXPECT_FALSE(lets_through(spaced(nullptr), text)) << text;
  }
  EXPECT_FALSE(lets_through({.kind = Constraint::Kind::kJsonObject}, "{\n  \"a\": 1\n}"));
}

TEST(JsonWhitespace, RequestPatternReplacesTheDefault) {
  for (const char* pattern : {"[ \\n]*", "\\s*", "(\\n *)? ?"}) {
    EXPECT_TRUE(lets_through(spaced(pattern), "{\n  \"a\": 1,\n  \"b\": [\n    1\n  ]\n}")) << pattern;
    EXPECT_TRUE(lets_through(spaced(pattern), R"({"a":1,"b":[]})")) << pattern;
  }
  EXPECT_TRUE(lets_through(spaced(""), R"({"a":1,"b":[1,2]})"));
  EXPECT_FALSE(lets_through(spaced(""), R"({"a": 1})"));
  EXPECT_TRUE(lets_through(spaced(" "), R"({ "a": 1 })"));
  EXPECT_FALSE(lets_through(spaced(" "), R"({ "a":1 })"));
  EXPECT_FALSE(lets_through(spaced("[ ]{0,2}"), R"({"a":   1})"));
  EXPECT_TRUE(refusal(spaced("x")).starts_with("whitespace pattern: ")) << refusal(spaced("x"));
  EXPECT_TRUE(refusal(spaced("(")).starts_with("whitespace pattern: ")) << refusal(spaced("("));
  EXPECT_NE(spaced(" ").key(), spaced("").key());
  EXPECT_NE(spaced(nullptr).key(), spaced("").key());
  const Written written = write(ReplyConstraint(maker_of(spaced("[ ]{1,2}")), 30), 30, goes_on);
  EXPECT_TRUE(written.whole) << "closed with the whitespace that must come: " << written.text;
}

// -- keys of arguments

bool calls_with(const char* parameters, const std::string& arguments) {
  CallsConstraint calls;
  calls.tools.push_back({.name = "f", .parameters = *Json::parse(parameters)});
  return lets_through({.kind = Constraint::Kind::kCalls, .calls = calls}, arguments);
}

TEST(ToolArguments, HaveDeclaredKeysAlone) {
  constexpr const char* kNested = R"({"type": "object", "properties": {"a": {"type": "integer"},
    "o": {"type": "object", "properties": {"x": {"type": "integer"}}},
    "l": {"type": "array", "items": {"properties": {"y": {"type": "null"}}, "type": "object"}}}})";
  EXPECT_TRUE(calls_with(kNested, R"({"a":1,"o":{"x":2},"l":[{"y":null}]})"));
  EXPECT_FALSE(calls_with(kNested, R"({"b":1})"));
  EXPECT_FALSE(calls_with(kNested, R"({"o":{"b":1}})"));
  EXPECT_FALSE(calls_with(kNested, R"({"l":[{"b":1}]})"));
  EXPECT_TRUE(lets_through(schema_of(kNested), R"({"b":1})")) << "a schema of the reply is kept as it is";
}

TEST(ToolArguments, OtherKeysWhereTheSchemaSaysSo) {
  EXPECT_TRUE(calls_with(R"({"properties": {"a": {}}, "additionalProperties": true})", R"({"b":1})"));
  EXPECT_TRUE(
      calls_with(R"({"properties": {"a": {}}, "additionalProperties": {"type": "integer"}})", R"({"b":1})"));
  EXPECT_TRUE(calls_with(R"({"properties": {"a": {}}, "patternProperties": {"^x": {}}})", R"({"x1":1})"));
  EXPECT_FALSE(calls_with(R"({"properties": {"a": {}}, "patternProperties": {"^x": {}}})", R"({"b":1})"));
  EXPECT_TRUE(calls_with(R"({"type": "object"})", R"({"b":{"c":1}})")) << "nothing is declared";
  EXPECT_TRUE(calls_with("{}", R"({"b":1})"));
  EXPECT_TRUE(calls_with(R"({"properties": {"o": {"type": "object"}}})", R"({"o":{"any":1}})"));
}

TEST(ToolArguments, SchemasThatAreJoinedDeclareTogether) {
  constexpr const char* kJoined = R"({"type": "object", "properties": {"a": {"type": "integer"}},
    "allOf": [{"properties": {"b": {"type": "integer"}}}, {"$ref": "#/$defs/c"}],
    "$defs": {"c": {"properties": {"c": {"type": "integer"}}}}})";
  EXPECT_TRUE(calls_with(kJoined, R"({"a":1,"b":2,"c":3})"));
  EXPECT_FALSE(calls_with(kJoined, R"({"d":1})"));
  constexpr const char* kEither = R"({"type": "object", "properties": {"t": {"type": "integer"}},
    "anyOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]})";
  EXPECT_TRUE(calls_with(kEither, R"({"t":1,"a":2})"));
  EXPECT_TRUE(calls_with(kEither, R"({"b":2})"));
  EXPECT_FALSE(calls_with(kEither, R"({"a":2,"d":1})"));
}

}  // namespace
}  // namespace reprise::protocol::grammar
