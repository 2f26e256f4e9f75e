// Lark grammars: accepted texts, tool inputs within calls, and errors with their line.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/protocol/grammar/grammar_fixture.h"

namespace reprise::protocol::grammar {
namespace {

using Kind = Constraint::Kind;
using Texts = std::vector<std::string>;

Constraint grammar_of(std::string text) {
  return {.kind = Kind::kLark, .text = std::move(text)};
}

void expect_texts(const std::string& grammar, const Texts& fit, const Texts& others) {
  const Constraint constraint = grammar_of(grammar);
  ASSERT_EQ(refusal(constraint), "") << grammar;
  for (const std::string& text : fit) EXPECT_TRUE(lets_through(constraint, text)) << grammar << ": " << text;
  for (const std::string& text : others)
    EXPECT_FALSE(lets_through(constraint, text)) << grammar << ": " << text;
}

/// The patch format of coding agents.
constexpr const char* kPatchGrammar = R"lark(
start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
)lark";

const Texts& patches() {
  static const Texts kPatches = {"*** Begin Patch\n*** Add File: a.txt\n+one\n+\n*** End Patch\n",
                                 "*** Begin Patch\n*** Delete File: old \"name\".py\n*** End Patch",
                                 "*** Begin Patch\n*** Update File: src/a.py\n*** Move to: src/b.py\n@@ def "
                                 "f():\n context\n-old\n+new \\ \xC3\xA9\n@@\n"
                                 "+x\n*** End of File\n*** Delete File: c\n*** End Patch\n"};
  return kPatches;
}
const Texts& broken_patches() {
  static const Texts kBroken = {"",
                                "*** Begin Patch\n*** End Patch\n",
                                "*** Begin Patch\n*** Add File: a.txt\n*** End Patch\n",
                                "*** Begin Patch\n*** Add File: \n+x\n*** End Patch\n",
                                "*** Begin Patch\n*** Update File: a\nline\n*** End Patch\n",
                                "*** Begin Patch\n*** Delete File: a\n*** End Patch\n\n"};
  return kBroken;
}

TEST(Lark, PatchesOfCodingAgents) {
  expect_texts(kPatchGrammar, patches(), broken_patches());
}

TEST(Lark, RulesAndTerminals) {
  expect_texts("start: a \"!\" | B // a comment\na: \"x\" # another\n  | \"y\"\nB: \"z\" \"w\"?\n",
               {"x!", "y!", "z", "zw"}, {"x", "xw", "zw!", ""});
  expect_texts("?start: (\"a\" | \"b\")* [\"c\"] \"d\"+\n", {"d", "abacdd", "cd"}, {"", "ccd", "da"});
  expect_texts("start: \"a\"~2 \"b\"~1..3", {"aab", "aabbb"}, {"ab", "aa", "aabbbb"});
  expect_texts("!start.2: item -> it | -> nothing\nitem.-1: \"a\"..\"f\" \"0\" .. \"9\"", {"a0", "f9", ""},
               {"g0", "a", "0a"});
  expect_texts("start:\n  \"a\" start \"b\"\n  |\n", {"", "ab", "aabb"}, {"aab", "ba"});
  expect_texts("start: \\\n  \"a\"\r\n", {"a"}, {"aa"});
  expect_texts("start: _rest\n_rest: \"\\x41\\u00e9\\n\\\"\\\\\"", {"A\xC3\xA9\n\"\\"}, {"A"});
  expect_texts("start: (\"x\"~2)~2 [\"y\"]", {"xxxx", "xxxxy"}, {"xxx", "xx"});
}

TEST(Lark, RegularExpressionsAreAsPythonReadsThem) {
  expect_texts("start: /a.b/ /[]x]+/",
               {"a\rb]",
                "a\xC3\xA9"
                "bx]"},
               {"a\nb]", "ab]"});
  expect_texts("start: /a.b/s", {"a\nb"}, {"ab"});
  expect_texts("start: /se[^l]ect [a-c]/i", {"SExeCT B", "sexect a"}, {"SELECT A", "selct a", "sexect d"});
  expect_texts("start: \"Sel-1\"i \"x\"", {"sel-1x", "SEL-1x"}, {"sel-1X", "sal-1x"});
  expect_texts("start: /\\/\\d+\\/?/", {"/12", "/1/"}, {"12", "/"});
  const Constraint python{
      .kind = Kind::kCalls,
      .calls = {.tools = {{.name = "t", .input = {.kind = TextRule::Kind::kRegex, .text = "^a.$"}}}}};
  EXPECT_TRUE(lets_through(python, "{\"input\": \"a\\r\"}"));
  EXPECT_FALSE(lets_through(python, "{\"input\": \"a\\n\"}"));
}

TEST(Lark, CommonTerminals) {
  expect_texts("start: INT \",\" NUMBER \",\" SIGNED_NUMBER\n%import common (INT, NUMBER, SIGNED_NUMBER)",
               {"1,2.5e-3,-7", "00,.5,+1e9", "1,2,3"}, {"-1,2,3", "1,.,3", "1,2,--3"});
  expect_texts(
      "start: ESCAPED_STRING CNAME WORD\n%import common.ESCAPED_STRING\n%import common.CNAME\n"
      "%import common.WORD",
      {"\"a\\\"b\"_x1Yz", "\"\"aZ"}, {"\"a\"b\"xY", "\"\\\"ab", "\"\"1x"});
  expect_texts(
      "start: A NEWLINE WS_INLINE HEXDIGIT\n%import common.LETTER -> A\n%import common.NEWLINE\n"
      "%import common.WS_INLINE\n%import common.HEXDIGIT",
      {"q\n \tF", "Q\r\n\n 0"}, {"q\r 0", "q\n0", "1\n 0"});
  expect_texts("start: C_COMMENT SH_COMMENT\n%import common.C_COMMENT\n%import common.SH_COMMENT",
               {"/* a **b/ **/#x"}, {"/* a */ */#x", "/**/"});
}

TEST(Lark, IgnoredTextIsAllowedBetweenTerminals) {
  expect_texts(
      "start: NAME (\",\" NAME)*\nNAME: /[a-z]+/\n%import common.WS\n%ignore WS\n%ignore \"#\" /[^\\n]*/ "
      "\"\\n\"",
      {"a,b", " a ,\n b ", "#x\na,#y\n b", "ab"}, {"a b", "a,", " ", "#x\n"});
}

TEST(Lark, RulesThatBeginWithThemselves) {
  expect_texts("start: sum\nsum: sum \"+\" sum_2 | sum_2 | sum\nsum_2: sum_2 \"*\" N | N\nN: /[0-9]/",
               {"1", "1+2*3+4"}, {"+", "1+", "1**2"});
  EXPECT_EQ(refusal(grammar_of("start: a\na: b \"x\"\nb: \"y\"? a | \"z\"")),
            "line 2 of the grammar: rule 'a' begins with itself");
  EXPECT_EQ(refusal(grammar_of("start: start \"a\"")), "nothing fits it");
}

TEST(Lark, RefusalsNameTheLine) {
  const auto why = [](const char* grammar) { return refusal(grammar_of(grammar)); };
  EXPECT_EQ(why("start: \"a\"\n\nb: c"), "line 3 of the grammar: the grammar has no rule 'c'");
  EXPECT_EQ(why("begin: \"a\""), "the grammar has no rule 'start'");
  EXPECT_EQ(why("start: \"a"), "line 1 of the grammar: the end of a string is missing");
  EXPECT_EQ(why("start: \"a\\d\""), "line 1 of the grammar: an unknown escape '\\d' in a string");
  EXPECT_EQ(why("start: /a"), "line 1 of the grammar: the end of a regular expression is missing");
  EXPECT_EQ(why("start: /a/m"),
            "line 1 of the grammar: the flag 'm' of a regular expression is not supported");
  EXPECT_EQ(why("start: /\xC3\xA9/i"),
            "line 1 of the grammar: the regular expression has characters beyond ASCII beside the flag i, "
            "which is not "
            "supported, at byte 2");
  EXPECT_EQ(why("start: X\nX: /a$/"),
            "line 2 of the grammar: the regular expression has a '^' or '$', which is not supported within a "
            "grammar, at "
            "byte 2");
  EXPECT_EQ(why("start: /(?=a)b/"),
            "line 1 of the grammar: the regular expression has look around or flags '(?=a', which are not "
            "supported, at "
            "byte 1");
  EXPECT_EQ(why("start: /\\p/"),
            "line 1 of the grammar: the regular expression has a Unicode property, which is not "
            "supported, at byte 1");
  EXPECT_EQ(why("start: x{\"a\"}"), "line 1 of the grammar: templates of rules ('x{…}') are not supported");
  EXPECT_EQ(why("%declare A\nstart: A"),
            "line 1 of the grammar: '%declare' is not supported, only %import and %ignore are");
  EXPECT_EQ(why("start: A\n%import python.A"),
            "line 2 of the grammar: only 'common' can be imported, not 'python.A'");
  EXPECT_EQ(why("start: A\n%import common.A"), "line 2 of the grammar: 'common.A' is not known here");
  EXPECT_EQ(why("start: A\nA: b\nb: \"x\""),
            "line 2 of the grammar: a terminal cannot have the rule 'b' in it");
  EXPECT_EQ(why("start: A\nA: \"(\" B \")\" | \"x\"\nB: A"),
            "line 2 of the grammar: the terminal 'A' has itself in it");
  EXPECT_EQ(why("start: \"a\"\nstart: \"b\""), "line 2 of the grammar: 'start' is defined twice");
  EXPECT_EQ(why("start: \"ab\"..\"c\""),
            "line 1 of the grammar: the end of a range that is not one character");
  EXPECT_EQ(why("start: \"a\"..\"\""), "line 1 of the grammar: the end of a range that is not one character");
  EXPECT_EQ(why("start: \"a\"~3..2"),
            "line 1 of the grammar: a repetition whose bounds are in the wrong order");
  EXPECT_EQ(why("start: (\"a\""), "line 1 of the grammar: ')' is missing before ''");
  EXPECT_EQ(why("start: \"a\" )"), "line 1 of the grammar: ')' is not expected");
  EXPECT_EQ(why("start \"a\""), "line 1 of the grammar: ':' is missing behind 'start'");
}

// -- tool inputs

CallsConstraint calls_of(CallsConstraint::Arguments form, const std::string& grammar) {
  return {.arguments = form,
          .tools = {{.name = "edit", .input = {.kind = TextRule::Kind::kLark, .text = grammar}}}};
}

TEST(LarkInput, IsEscapedInJson) {
  const Constraint calls{.kind = Kind::kCalls,
                         .calls = calls_of(CallsConstraint::Arguments::kJson, kPatchGrammar)};
  for (const std::string& text : patches()) {
    EXPECT_TRUE(lets_through(calls, Json{{"input", text}}.dump())) << text;
    EXPECT_TRUE(lets_through(calls, " {\"input\": " + Json(text).dump() + "}")) << text;
  }
  for (const std::string& text : broken_patches()) {
    EXPECT_FALSE(lets_through(calls, Json{{"input", text}}.dump())) << text;
  }
  const Constraint pair{
      .kind = Kind::kCalls,
      .calls = calls_of(CallsConstraint::Arguments::kJson, "start: \"\\n\" /[\xC3\xA9-\U0001F600]/")};
  for (const char* text : {R"("\u000a\u00e9")", R"("\n\ud83d\ude00")", "\"\\n\xF0\x9F\x98\x80\""}) {
    EXPECT_TRUE(lets_through(pair, std::string("{\"input\":") + text + "}")) << text;
  }
  for (const char* text : {"\"\n\xC3\xA9\"", R"("\n\ud83d\ude01")", R"("\n")", R"("\ne")"}) {
    EXPECT_FALSE(lets_through(pair, std::string("{\"input\":") + text + "}")) << text;
  }
  for (const char* other : {"{}", "{\"other\":\"\\n\xC3\xA9\"}", "{\"input\":7}"})
    EXPECT_FALSE(lets_through(pair, other));
}

TEST(LarkInput, IsAsItIsInXmlWithoutTheMarkOfItsEnd) {
  const auto call = [](const std::string& text) { return "<parameter=input>\n" + text + "\n</parameter>\n"; };
  const Constraint calls{.kind = Kind::kCalls,
                         .calls = calls_of(CallsConstraint::Arguments::kXml, kPatchGrammar)};
  for (const std::string& text : patches()) EXPECT_TRUE(lets_through(calls, call(text))) << text;
  for (const std::string& text : broken_patches()) EXPECT_FALSE(lets_through(calls, call(text))) << text;
  EXPECT_TRUE(
      lets_through(calls, call("*** Begin Patch\n*** Add File: a\n+</parameter\n+x>\n*** End Patch")));
  EXPECT_FALSE(lets_through(calls, call("*** Begin Patch\n*** Add File: a\n+</parameter>\n*** End Patch")));
  // The tag must not arise across two terminals either.
  const Constraint tags{.kind = Kind::kCalls,
                        .calls = calls_of(CallsConstraint::Arguments::kXml,
                                          "start: (\"<\" \"/\"? NAME \">\" | /[^<>]/)*\nNAME: /[a-z]+/")};
  EXPECT_TRUE(lets_through(tags, call("<a>x</a><parameter></parameters>")));
  EXPECT_FALSE(lets_through(tags, call("<a>x</parameter>y")));
}

TEST(LarkInput, IsAStringInPython) {
  const Constraint calls{.kind = Kind::kCalls,
                         .calls = calls_of(CallsConstraint::Arguments::kPython, "start: /a+/ \"\\n\"")};
  EXPECT_TRUE(lets_through(calls, "input=\"aa\\n\""));
  EXPECT_FALSE(lets_through(calls, "input=\"aa\""));
}

TEST(LarkInput, RefusalsNameTheTool) {
  const Constraint calls{.kind = Kind::kCalls,
                         .calls = calls_of(CallsConstraint::Arguments::kJson, "start: a")};
  EXPECT_EQ(refusal(calls), "format of 'edit': line 1 of the grammar: the grammar has no rule 'a'");
}

TEST(LarkInput, RandomCallsDecodeToTextsThatFit) {
  const Constraint whole = grammar_of(kPatchGrammar);
  const auto program =
      compile({.kind = Kind::kCalls, .calls = calls_of(CallsConstraint::Arguments::kJson, kPatchGrammar)});
  ASSERT_TRUE(program.ok());
  const auto maker = std::make_shared<MaskMaker>(*program, small_vocabulary());
  std::mt19937_64 random(5);
  int ended = 0;
  for (int round = 0; round < 40; ++round) {
    ReplyConstraint reply(maker);
    std::string text;
    bool whole_call = false;
    for (int step = 0; step < 3000 && !whole_call; ++step) {
      const SharedMask mask = reply.mask();
      std::vector<TokenId> allowed;
      for (std::size_t id = 1; id < small_vocabulary()->token_count(); ++id) {
        if (mask->allows(static_cast<TokenId>(id))) allowed.push_back(static_cast<TokenId>(id));
      }
      whole_call = allowed.empty();
      if (whole_call) break;
      // Steers toward the end: a line feed, an asterisk, or the tags, where allowed.
      TokenId chosen = allowed[random() % allowed.size()];
      if (step > 40) {
        for (const char* piece : {"\\n", "}", "\"", "E", "n"}) {
          const auto wanted = std::find_if(allowed.begin(), allowed.end(), [&](TokenId id) {
            return small_vocabulary()->token(id).bytes == piece;
          });
          if (wanted != allowed.end() && random() % 4 != 0) chosen = *wanted;
        }
      }
      ASSERT_TRUE(reply.accept(chosen));
      text += small_vocabulary()->token(chosen).bytes;
    }
    if (!whole_call) continue;
    ASSERT_TRUE(reply.may_end()) << "a dead end behind " << text;
    ++ended;
    const auto arguments = Json::parse(text);
    ASSERT_TRUE(arguments.ok()) << text;
    EXPECT_TRUE(lets_through(whole, *arguments->find_string("input"))) << text;
  }
  EXPECT_GT(ended, 0);
}

}  // namespace
}  // namespace reprise::protocol::grammar
