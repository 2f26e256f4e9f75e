// The texts that constraints accept and reject.

#include <gtest/gtest.h>

#include "tests/protocol/grammar/grammar_fixture.h"

namespace reprise::protocol::grammar {
namespace {

void expect_schema(const std::string& schema, const std::vector<std::string>& fits,
                   const std::vector<std::string>& others) {
  for (const std::string& text : fits)
    EXPECT_TRUE(lets_through(schema_of(schema), text)) << schema << "\n" << text;
  for (const std::string& text : others)
    EXPECT_FALSE(lets_through(schema_of(schema), text)) << schema << "\n" << text;
}

TEST(JsonSchemaGrammar, ObjectsInAnyOrderEachMemberOnce) {
  expect_schema(
      R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
                    "required": ["a"], "additionalProperties": false})",
      {R"({"a": 1})", R"({"a":1,"b":"x"})", R"({"b": "x", "a": -7})"},
      {"{}", R"({"b": "x"})", R"({"a": 1, "a": 2})", R"({"a": 1, "c": 2})", R"({"a": 1,})", R"({"a": 1.5})"});
}

TEST(JsonSchemaGrammar, OtherMembers) {
  expect_schema(R"({"type": "object", "properties": {"ab": {"type": "integer"}},
                    "additionalProperties": {"type": "boolean"}})",
                {"{}", R"({"a": true})", R"({"abc": true, "ab": 3})", R"({"\u0061b": 3})"},
                {R"({"ab": true})", R"({"a": 1})", R"({"\u0061b": true})"});
  expect_schema(R"({"type": "object", "patternProperties": {"^x": {"type": "integer"}, "y$": {"minimum": 5}},
                    "additionalProperties": false})",
                {R"({"x": 1})", R"({"xy": 7})", R"({"ay": "t"})"},
                {R"({"xy": 2})", R"({"a": 1})", R"({"x": "1"})"});
  expect_schema(R"({"type": "object", "propertyNames": {"pattern": "^[a-c]+$"}})", {R"({"ab": 1})"},
                {R"({"d": 1})"});
  expect_schema(R"({"type": "object", "dependentRequired": {"a": ["b"]}})",
                {R"({"b": 1})", R"({"a": 1, "b": 2})", "{}"}, {R"({"a": 1})"});
  expect_schema(
      R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "required": ["c"], "maxProperties": 2})",
      {R"({"c": 1})", R"({"a": 1, "c": 1})"}, {R"({"a": 1, "b": 1})", R"({"a": 1, "b": 1, "c": 1})"});
}

TEST(JsonSchemaGrammar, Strings) {
  expect_schema(R"({"type": "string", "minLength": 2, "maxLength": 3})",
                {R"("ab")", R"("日本語")", R"("\n\"")", R"("\ud83d\ude00a")"},
                {R"("a")", R"("abcd")", "\"a\nb\"", R"("\ud83d")"});
  expect_schema(R"({"type": "string", "pattern": "^[a-z]+\"$"})", {R"("ab\"")", R"("a\u0022")"},
                {R"("ab")", R"("ab"")"});
  expect_schema(R"({"type": "string", "pattern": "b+", "maxLength": 3})", {R"("abc")", R"("bbb")"},
                {R"("acc")", R"("aabb")"});
  expect_schema(R"({"type": "string", "format": "date"})", {R"("2024-02-29")"},
                {R"("2023-02-29")", R"("2024-13-01")"});
  expect_schema(R"({"type": "string", "format": "uri"})",
                {R"("https://a.b/c?d#e")", R"("file:///path/x.js")", R"("urn:a:b")"},
                {R"("//a.b/c")", R"("http:// a")", R"("http://")"});
  expect_schema(R"({"type": "string", "format": "uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"},
                {R"("123")"});
  expect_schema(R"({"type": "string", "not": {"enum": ["ab", "b"]}})", {R"("a")", R"("abc")"},
                {R"("ab")", R"("b")"});
  EXPECT_FALSE(lets_through(schema_of(R"({"type": "string"})"), "\"\xC3(\""));
  EXPECT_FALSE(lets_through(schema_of(R"({"type": "string"})"), "\"\xED\xA0\x80\""));
}

TEST(JsonSchemaGrammar, Numbers) {
  expect_schema(R"({"type": "number"})", {"0", "-1.5", "1e10", "2E-3"}, {"01", "+1", "1.", ".5", "-", "1e"});
  expect_schema(R"({"type": "integer", "minimum": -3, "maximum": 120})", {"-3", "0", "99", "120"},
                {"-4", "121", "1000", "1.0"});
  expect_schema(R"({"type": "number", "exclusiveMinimum": 0.5, "maximum": 10})",
                {"0.51", "10", "9.99", "10.0"}, {"0.5", "0.50", "10.01", "-1", "11"});
  expect_schema(R"({"type": "integer", "multipleOf": 15})", {"0", "15", "-30", "300"}, {"5", "31"});
  expect_schema(R"({"type": "number", "multipleOf": 0.25})", {"1", "0.25", "1.50"}, {"0.3", "1.251"});
}

TEST(JsonSchemaGrammar, ArraysAndTuples) {
  expect_schema(R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2})",
                {"[1]", "[1, 2]"}, {"[]", "[1, 2, 3]", "[\"a\"]", "[1,]"});
  expect_schema(R"({"type": "array", "prefixItems": [{"type": "string"}, {"type": "null"}], "items": false})",
                {"[]", "[\"a\"]", "[\"a\",null]"}, {"[null]", "[\"a\",null,1]"});
}

TEST(JsonSchemaGrammar, ChoicesAndReferences) {
  expect_schema(R"({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]})", {"1", "\"a\""},
                {"\"ab\"", "1.5"});
  expect_schema(R"({"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"})",
                {R"({"a": 1})", R"({"b": 1, "c": 2})"}, {"{}", R"({"a": 1, "b": 2})"});
  expect_schema(R"({"oneOf": [{"type": "integer", "minimum": 5}, {"type": "integer", "maximum": 7}]})",
                {"4", "8"}, {"5", "7"});
  expect_schema(R"({"allOf": [{"type": "integer", "minimum": 5}, {"maximum": 7}]})", {"5", "7"}, {"4", "8"});
  expect_schema(R"({"type": "object", "properties": {"kind": {"enum": ["x", "y"]}}, "required": ["kind"],
                    "if": {"properties": {"kind": {"const": "x"}}}, "then": {"required": ["a"]}, "else": {"required": ["b"]}})",
                {R"({"kind": "x", "a": 1})", R"({"b": 1, "kind": "y"})"},
                {R"({"kind": "x", "b": 1})", R"({"kind": "y"})"});
  expect_schema(
      R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}},
                    "additionalProperties": false}}})",
      {"{}", R"({"next": {"next": {}}})"}, {R"({"next": 1})"});
  expect_schema(R"({"enum": [1, "a\"b", null, {"k": [true]}]})",
                {"1", R"("a\"b")", "null", R"({"k": [true]})"}, {"2", "{}"});
  expect_schema(R"({"enum": [-2.0, 1.5]})", {"-2.0", "-2", "1.5"}, {"2", "1", "-2."});
  expect_schema(R"({"type": "string", "enum": ["a", 1, "bc"], "maxLength": 1})", {"\"a\""}, {"1", "\"bc\""});
}

TEST(JsonSchemaGrammar, OptionsAreKeptApart) {
  // Only the empty list fits both options, so oneOf rejects it.
  expect_schema(
      R"({"oneOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "string"}}]})",
      {"[1]", R"(["a", "b"])"}, {"[]", R"([1, "a"])"});
  expect_schema(R"({"oneOf": [{"type": "array", "items": {"type": "integer"}},
                              {"type": "array", "items": {"type": "string"}, "minItems": 1}]})",
                {"[]", "[1]", R"(["a"])"}, {R"([1, "a"])"});
  // The remainder of each option is described by its possible member names.
  expect_schema(
      R"({"oneOf": [{"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": false},
                              {"type": "object", "properties": {"a": {}, "c": {}}, "additionalProperties": false}]})",
      {R"({"b": 1})", R"({"a": 1, "c": 2})"}, {"{}", R"({"a": 1})", R"({"b": 1, "c": 1})"});
  expect_schema(
      R"({"oneOf": [{"type": "object", "properties": {"a": {"properties": {"x": {}}, "additionalProperties": false}},
                     "additionalProperties": false}, {"type": "object", "properties": {"z": {}}, "additionalProperties": false}]})",
      {R"({"z": 1})", R"({"a": {"x": 1}})"}, {"{}", R"({"a": {"z": 1}})"});
  expect_schema(R"({"oneOf": [{"type": "integer"}, {"minimum": 2}]})", {"1", "2.5", "\"a\""}, {"3", "1.5"});
  expect_schema(R"({"type": "integer", "not": {"enum": [1, 2.0, "x"]}})", {"3", "12", "-1"}, {"1", "2"});
  expect_schema(R"({"type": "number", "not": {"const": 1}})", {"1.5", "0"}, {"1", "1.0", "1e0"});
  expect_schema(R"({"type": "string", "not": {"format": "date"}})", {"\"x\""}, {"\"2024-02-29\""});
  expect_schema(R"({"not": {"oneOf": [{"type": "integer"}, {"minimum": 2}, {"type": "string"}]}})",
                {"3", "1.5", "\"a\""}, {"1", "2.5", "null"});
}

TEST(JsonSchemaGrammar, WhatCannotBeKeptIsRefusedByName) {
  const auto begins = [](const std::string& schema, const std::string& keyword) {
    const std::string error = refusal(schema_of(schema));
    EXPECT_TRUE(error.starts_with(keyword + ": ")) << schema << " gives '" << error << "'";
  };
  begins(R"({"type": "array", "uniqueItems": true})", "uniqueItems");
  begins(R"({"type": "array", "contains": {"type": "integer"}})", "contains");
  begins(R"({"unevaluatedProperties": false})", "unevaluatedProperties");
  begins(R"({"type": "string", "pattern": "(?=a)b"})", "pattern");
  begins(R"({"type": "string", "format": "idn-email"})", "format");
  begins(R"({"$ref": "https://example.com/schema"})", "$ref");
  begins(R"({"type": "strin"})", "type");
  begins(R"({"type": "string", "minLength": -1})", "minLength");
  begins(R"({"oneOf": [{"format": "date"}, {"items": {"type": "integer"}}]})", "oneOf");
  EXPECT_EQ(
      refusal(schema_of(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})")),
      "nothing fits it");
}

TEST(JsonSchemaGrammar, BoundsHold) {
  const std::string large = R"({"type": "string", "pattern": "^(a|b)*a(a|b){17}$"})";
  EXPECT_NE(refusal(schema_of(large)).find("states"), std::string::npos);
  Limits few;
  few.nodes = 3;
  EXPECT_NE(refusal(schema_of(R"({"type": "object", "properties": {"a": {}, "b": {}}})"), few).find("nodes"),
            std::string::npos);
  EXPECT_NE(refusal({.kind = Constraint::Kind::kRegex, .text = "((a{9999}){9999}){9999}"}), "");
  EXPECT_NE(refusal({.kind = Constraint::Kind::kRegex, .text = std::string(1000, '(')}), "");
}

// Recursive options are only followed to a limited depth.
TEST(JsonSchemaGrammar, OneOfThatComesBackToItself) {
  const std::string node = R"({"type": "object", "required": ["k"], "properties": {"k": {"oneOf":
    [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"type": "integer"}]}, "t": {"const": )";
  const std::string schema =
      R"({"$ref": "#/$defs/a", "$defs": {"a": )" + node + R"("a"}}}, "b": )" + node + R"("b"}}}}})";
  EXPECT_TRUE(refusal(schema_of(schema)).starts_with("oneOf: ")) << refusal(schema_of(schema));
  const std::string kinds = R"({"type": "object", "required": ["t"], "properties": {"k": {"oneOf":
    [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"type": "integer"}]}, "t": {"const": )";
  expect_schema(
      R"({"$ref": "#/$defs/a", "$defs": {"a": )" + kinds + R"("a"}}}, "b": )" + kinds + R"("b"}}}}})",
      {R"({"t": "a", "k": {"t": "b", "k": {"t": "a"}}})"}, {R"({"t": "a", "k": {"t": "c"}})"});
}

TEST(Grammar, Regex) {
  const Constraint regex{.kind = Constraint::Kind::kRegex, .text = "(yes|no|[0-9]{2,3})!?"};
  for (const char* text : {"yes", "no!", "12", "123!"}) EXPECT_TRUE(lets_through(regex, text)) << text;
  for (const char* text : {"", "ye", "1", "1234", "yes!!"}) EXPECT_FALSE(lets_through(regex, text)) << text;
}

TEST(Grammar, Choice) {
  const Constraint choice{.kind = Constraint::Kind::kChoice, .choices = {"red", "green", "gr\"ey"}};
  for (const char* text : {"red", "green", "gr\"ey"}) EXPECT_TRUE(lets_through(choice, text)) << text;
  for (const char* text : {"", "re", "grey", "redd"}) EXPECT_FALSE(lets_through(choice, text)) << text;
}

TEST(Grammar, Gbnf) {
  const Constraint gbnf{.kind = Constraint::Kind::kGbnf, .text = R"g(
# sums
root ::= expr ("=" | "?")
expr ::= term (op term)*
op   ::= [-+*/]
term ::= num | "(" expr ")"
num  ::= "-"? [0-9]{1,3} ("." [0-9]+)?
)g"};
  for (const char* text : {"1=", "1+2=", "(1-2)*3.25?", "((7))="})
    EXPECT_TRUE(lets_through(gbnf, text)) << text;
  for (const char* text : {"1", "=", "(1=", "1234=", "1.="}) EXPECT_FALSE(lets_through(gbnf, text)) << text;
  EXPECT_EQ(refusal({.kind = Constraint::Kind::kGbnf, .text = "root ::= root \"a\" | \"b\""}),
            "rule 'root' begins with itself");
  EXPECT_EQ(refusal({.kind = Constraint::Kind::kGbnf, .text = "root ::= other"}),
            "the grammar has no rule 'other'");
  EXPECT_EQ(refusal({.kind = Constraint::Kind::kGbnf, .text = "root ::= \"a"}),
            "line 1 of the grammar: the end of a literal is missing");
}

TEST(Grammar, ReasoningMayPrecedeTheReply) {
  Constraint constraint = schema_of(R"({"type": "integer"})");
  constraint.think_open = "<think>";
  constraint.think_close = "</think>";
  for (const char* text : {"7", "<think>a </thin</think>\n\n7", "<think></think>7"}) {
    EXPECT_TRUE(lets_through(constraint, text)) << text;
  }
  for (const char* text : {"<think>7", "<think></think>x", "think</think>7"}) {
    EXPECT_FALSE(lets_through(constraint, text)) << text;
  }
  constraint.think_open.clear();
  EXPECT_TRUE(lets_through(constraint, "so</think>7"));
  EXPECT_FALSE(lets_through(constraint, "7"));
}

TEST(Grammar, CallsOfTools) {
  CallsConstraint calls;
  calls.tools.push_back(
      {.name = "add",
       .before = {"add\", \"arguments\":"},
       .after = {"}\n", "</tool_call>"},
       .parameters = *Json::parse(
           R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})")});
  calls.tools.push_back(
      {.name = "now", .before = {"now\", \"arguments\":"}, .after = {"}\n", "</tool_call>"}});
  const Constraint constraint{.kind = Constraint::Kind::kCalls, .calls = calls};
  EXPECT_TRUE(lets_through(constraint, "add\", \"arguments\": {\"a\": 1}}\n</tool_call>"));
  EXPECT_TRUE(lets_through(constraint, "now\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(lets_through(constraint, "add\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(lets_through(constraint, "other\", \"arguments\": {}}\n</tool_call>"));
  Constraint anywhere = constraint;
  anywhere.calls.mark = "<tool_call>\n{\"name\": \"";
  EXPECT_TRUE(lets_through(anywhere, "just text"));
  EXPECT_TRUE(
      lets_through(anywhere, "x<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call> and more"));
  EXPECT_FALSE(lets_through(anywhere, "x<tool_call>\n{\"name\": \"nix\""));
  EXPECT_FALSE(lets_through(anywhere, "x<tool_call>\n{\"name\": \"now\""));
}

TEST(Grammar, SpecialTokensStandForMarksAlone) {
  CallsConstraint calls;
  calls.tools.push_back({.name = "f", .before = {"f"}, .after = {"<call>"}});
  const auto program = compile({.kind = Constraint::Kind::kCalls, .calls = calls});
  ASSERT_TRUE(program.ok());
  ReplyConstraint reply(std::make_shared<MaskMaker>(*program, small_vocabulary()));
  constexpr TokenId kCall = 1;
  EXPECT_FALSE(reply.mask()->allows(kCall));
  for (const char byte : std::string("f{}")) ASSERT_TRUE(reply.accept(static_cast<TokenId>(2 + byte)));
  EXPECT_TRUE(reply.mask()->allows(kCall));
  EXPECT_TRUE(reply.accept(kCall));
  EXPECT_TRUE(reply.may_end());
}

TEST(Grammar, StatesAreRecomputedAfterCachesAreDropped) {
  Limits little;
  little.matcher_bytes = 40'000;
  const auto program =
      compile(schema_of(R"({"type": "array", "items": {"type": "string", "maxLength": 30}})"), little);
  ASSERT_TRUE(program.ok());
  const auto small = std::make_shared<MaskMaker>(*program, small_vocabulary());
  const auto plenty = std::make_shared<MaskMaker>(
      *compile(schema_of(R"({"type": "array", "items": {"type": "string", "maxLength": 30}})")),
      small_vocabulary());
  std::mt19937_64 one(7);
  std::mt19937_64 other(7);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(random_reply(small, one), random_reply(plenty, other));
}

// Caches stay within their bound.
TEST(Grammar, MemoryStaysWithinItsBound) {
  Limits limits;
  limits.char_states = 3'000;
  limits.all_char_states = 20'000;
  limits.configurations = 400;
  limits.matcher_bytes = 400'000;
  const auto program = compile(
      schema_of(
          R"({"type":"array","items":{"type":"object","properties":{"a":{"type":"string","maxLength":300},
        "b":{"type":"number"},"c":{}}}})"),
      limits);
  ASSERT_TRUE(program.ok());
  const auto maker = std::make_shared<MaskMaker>(*program, small_vocabulary());
  std::mt19937_64 random(4);
  const std::size_t of_one_mask = 200'000;  // the bound is checked between two masks
  for (int i = 0; i < 30; ++i) {
    static_cast<void>(random_reply(maker, random));
    EXPECT_LT(maker->bytes(), limits.matcher_bytes + (*program)->bytes() + of_one_mask);
  }
}

}  // namespace
}  // namespace reprise::protocol::grammar
