// A thousand random schemas, and random replies: each must be JSON, and valid by an independent validator.

#include <gtest/gtest.h>

#include "tests/protocol/grammar/grammar_fixture.h"
#include "tests/protocol/grammar/json_validator.h"
#include "tests/sanitized.h"

namespace reprise::protocol::grammar {
namespace {

class SchemaWriter {
 public:
  explicit SchemaWriter(std::uint64_t seed) : random_(seed) {}

  Json schema(int depth) {
    Json result = Json::object();
    switch (roll(depth > 0 ? 12 : 7)) {
      case 0:
        result["type"] = "string";
        if (roll(2) == 0) result["minLength"] = static_cast<int>(roll(4));
        if (roll(2) == 0) result["maxLength"] = static_cast<int>(4 + roll(30));
        if (roll(4) == 0) result["pattern"] = pattern();
        break;
      case 1:
        result["type"] = roll(2) == 0 ? "integer" : "number";
        if (roll(2) == 0) result["minimum"] = bound();
        if (roll(2) == 0) result["maximum"] = 60 + static_cast<int>(roll(1000));
        if (roll(4) == 0) result["multipleOf"] = static_cast<int>(1 + roll(9));
        break;
      case 2:
        result["type"] = "number";
        result[roll(2) == 0 ? "exclusiveMinimum" : "minimum"] = -2.5;
        result[roll(2) == 0 ? "exclusiveMaximum" : "maximum"] = 3.25;
        break;
      case 3:
        result["enum"] = Json::array();
        for (const char* one : {"\"red\"", "\"green\"", "7", "null", "[1, \"a\"]", "{\"k\": true}"}) {
          if (roll(2) == 0 || std::string(one) == "7") result["enum"].push_back(*Json::parse(one));
        }
        break;
      case 4:
        result["type"] = "boolean";
        break;
      case 5:
        result["type"] = Json::array();
        result["type"].push_back("string");
        result["type"].push_back(roll(2) == 0 ? "null" : "integer");
        break;
      case 6:
        result["const"] = roll(2) == 0 ? Json("fixed \"text\"") : Json(static_cast<int>(roll(99)));
        break;
      case 7:
        result["type"] = "array";
        if (roll(3) != 0) result["items"] = schema(depth - 1);
        if (roll(2) == 0) result["minItems"] = static_cast<int>(roll(3));
        if (roll(2) == 0) result["maxItems"] = static_cast<int>(3 + roll(3));
        if (roll(4) == 0) {
          result["prefixItems"] = Json::array();
          result["prefixItems"].push_back(schema(depth - 1));
        }
        break;
      case 8:
        result["anyOf"] = Json::array();
        for (std::uint64_t i = 0; i < 2 + roll(2); ++i) result["anyOf"].push_back(schema(depth - 1));
        break;
      case 9: {
        result["allOf"] = Json::array();
        result["allOf"].push_back(object(depth - 1));
        result["allOf"].push_back(
            *Json::parse(R"({"required": ["z"], "properties": {"z": {"type": "boolean"}}})"));
        break;
      }
      default:
        return object(depth);
    }
    return result;
  }

  Json object(int depth) {
    Json result = Json::object();
    result["type"] = "object";
    Json properties = Json::object();
    Json required = Json::array();
    for (const char* name : {"name", "a", "ab", "é", "type"}) {
      if (roll(2) == 0) continue;
      properties[name] = schema(depth - 1);
      if (roll(2) == 0) required.push_back(name);
    }
    result["properties"] = std::move(properties);
    result["required"] = std::move(required);
    if (roll(3) == 0) result["additionalProperties"] = false;
    if (roll(4) == 0) result["additionalProperties"] = schema(0);
    if (roll(4) == 0) result["patternProperties"] = Json{{"^x", schema(0)}};
    if (roll(5) == 0) result["minProperties"] = 1;
    if (roll(5) == 0) result["maxProperties"] = 6;
    if (roll(6) == 0) result["not"] = *Json::parse(R"({"required": ["ab"]})");
    return result;
  }

 private:
  std::uint64_t roll(std::uint64_t sides) { return random_() % sides; }
  Json bound() { return roll(2) == 0 ? Json(-static_cast<int>(roll(50))) : Json(static_cast<int>(roll(50))); }
  const char* pattern() {
    constexpr const char* kPatterns[] = {"^[a-c]+$", "b", "^(ab|ba)*$", "^[^a]", "[0-9]{2,3}$"};
    return kPatterns[roll(5)];
  }

  std::mt19937_64 random_;
};

bool all_ascii(const Json& value) {
  return value.dump({.ensure_ascii = true}) == value.dump();
}

TEST(RandomSchema, EveryReplyParsesAndFits) {
  std::size_t kept = 0;
  std::size_t judged = 0;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(rounds(1000)); ++seed) {
    const Json schema = SchemaWriter(seed).schema(3);
    const auto program = compile({.kind = Constraint::Kind::kJsonSchema, .json = schema});
    if (!program.ok()) {
      EXPECT_EQ(program.error(), "nothing fits it") << schema.dump();
      continue;
    }
    ++kept;
    const auto maker = std::make_shared<MaskMaker>(*program, small_vocabulary());
    std::mt19937_64 random(seed);
    for (int reply = 0; reply < 2; ++reply) {
      const std::string text = random_reply(maker, random, {"name", "a", "ab", "\xC3\xA9", "type", "z"});
      const auto parsed = Json::parse(text, {}, {.python = true});  // integers of any length
      ASSERT_TRUE(parsed.ok()) << schema.dump() << "\n" << text << "\n" << parsed.error().message;
      // std::regex does not support UTF-8.
      const bool has_pattern = schema.dump().find("attern") != std::string::npos;
      if (has_pattern && !all_ascii(*parsed)) continue;
      ++judged;
      ASSERT_TRUE(validates(schema, schema, *parsed)) << schema.dump() << "\n" << text;
    }
  }
  EXPECT_GT(kept, rounds(1000) * 9U / 10);
  EXPECT_GT(judged, rounds(1000) * 3U / 2);
}

// With reasoning opened by the prompt, requested, or absent: a random writer ends within its limit, and never
// begins reasoning that was not offered.
TEST(RandomSchema, EveryReplyIsClosedWithinItsLimit) {
  constexpr std::size_t kLimit = 80;
  constexpr TokenId kOpensThinking = 1;  // "<call>", here
  enum class Reasoning { kAbsent, kOpened, kAskedFor };
  std::size_t replies = 0;
  std::size_t closed = 0;
  std::size_t reasoned = 0;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(rounds(1000)); ++seed) {
    const Json schema = SchemaWriter(seed).schema(2);
    for (const Reasoning reasoning : {Reasoning::kAbsent, Reasoning::kOpened, Reasoning::kAskedFor}) {
      Constraint constraint{.kind = Constraint::Kind::kJsonSchema, .json = schema};
      if (reasoning != Reasoning::kAbsent) constraint.think_close = "</t>";
      if (reasoning == Reasoning::kAskedFor) constraint.think_open = "<call>";
      const auto program = compile(constraint);
      if (!program.ok()) continue;
      ++replies;
      std::mt19937_64 random(seed);
      const auto maker = std::make_shared<MaskMaker>(*program, small_vocabulary());
      if (reasoning != Reasoning::kOpened) {
        const SharedMask first = ReplyConstraint(maker).mask();
        ASSERT_EQ(first->allows(kOpensThinking), reasoning == Reasoning::kAskedFor) << schema.dump();
      }
      ReplyConstraint reply(maker, kLimit);
      std::string text;
      bool stopped = false;
      for (std::size_t step = 0; step < kLimit && !stopped; ++step) {
        const SharedMask mask = reply.mask();
        if (mask->ends) break;
        std::vector<TokenId> allowed;
        for (std::size_t id = 0; id < small_vocabulary()->token_count(); ++id) {
          if (mask->allows(static_cast<TokenId>(id))) allowed.push_back(static_cast<TokenId>(id));
        }
        ASSERT_FALSE(allowed.empty()) << schema.dump() << "\n" << text;
        const bool opens = reasoning == Reasoning::kAskedFor && step == 0 && seed % 2 == 0;
        const TokenId chosen = opens ? kOpensThinking : allowed[random() % allowed.size()];
        stopped = chosen == kStop;
        if (stopped) break;
        ASSERT_TRUE(reply.accept(chosen)) << schema.dump() << "\n" << text;
        text += small_vocabulary()->token(chosen).bytes;
      }
      if (!reply.may_end()) continue;
      ++closed;
      if (reasoning == Reasoning::kOpened || text.starts_with("<call>")) {
        ++reasoned;
        const std::size_t close = text.find("</t>");
        ASSERT_NE(close, std::string::npos) << schema.dump() << "\n" << text;
        text.erase(0, close + 4);
      }
      const auto parsed = Json::parse(text, {}, {.python = true});
      ASSERT_TRUE(parsed.ok()) << schema.dump() << "\n" << text << "\n" << parsed.error().message;
      if (schema.dump().find("attern") != std::string::npos && !all_ascii(*parsed)) continue;
      ASSERT_TRUE(validates(schema, schema, *parsed)) << schema.dump() << "\n" << text;
    }
  }
  EXPECT_GT(closed, replies * 9 / 10) << "of " << replies;
  EXPECT_GT(reasoned, replies * 2 / 5);
}

// Masks are assembled from cached states; the matcher reads tokens byte by byte.
TEST(RandomSchema, MasksSayWhatTheMatcherSays) {
  std::size_t compared = 0;
  const auto compare = [&](const Constraint& constraint, std::uint64_t seed) {
    const auto program = compile(constraint);
    if (!program.ok()) return;
    const auto maker = std::make_shared<MaskMaker>(*program, small_vocabulary());
    std::mt19937_64 random(seed);
    ReplyConstraint reply(maker);
    for (int step = 0; step < 40; ++step) {
      const SharedMask mask = reply.mask();
      std::vector<TokenId> allowed;
      for (std::size_t id = 0; id < small_vocabulary()->token_count(); ++id) {
        const auto token = static_cast<TokenId>(id);
        if (token == kStop) continue;
        ReplyConstraint other = reply;
        ASSERT_EQ(other.accept(token), mask->allows(token))
            << constraint.json.dump() << constraint.text << " seed " << seed << " step " << step << " token "
            << small_vocabulary()->token(token).bytes;
        if (mask->allows(token)) allowed.push_back(token);
        ++compared;
      }
      if (allowed.empty()) return;
      ASSERT_TRUE(reply.accept(allowed[random() % allowed.size()]));
    }
  };
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(rounds(300)); ++seed) {
    compare({.kind = Constraint::Kind::kJsonSchema, .json = SchemaWriter(seed).schema(3)}, seed);
  }
  std::uint64_t seed = 0;
  for (
      const char* schema :
      {R"({"type": "string", "maxLength": 170})", R"({"type": "string", "minLength": 161, "maxLength": 400})",
       R"({"type": "string", "pattern": "^a{5,300}$"})", R"({"type": "string", "pattern": "^[a-z]*b$"})",
       R"({"type": "object", "properties": {"a": {}, "aaa": {}}, "additionalProperties": {"type": "null"}})",
       R"({"type": "object", "patternProperties": {"^a{2,190}$": {}}, "properties": {"ab": {}},
            "additionalProperties": false})",
       R"({"type": "object", "properties": {"a": {}, "ab": {}}, "maxProperties": 2, "required": ["ab"]})",
       R"({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "string", "pattern": "^x"}, {"type": "object"}]})"}) {
    for (int round = 0; round < 8; ++round) {
      Constraint constraint = schema_of(schema);
      compare(constraint, ++seed);
    }
  }
  for (const char* regex : {"a{0,250}b?", "(ab|a)*c{3,}", "[^b]*"}) {
    compare({.kind = Constraint::Kind::kRegex, .text = regex}, ++seed);
  }
  EXPECT_GT(compared, static_cast<std::size_t>(rounds(1'000'000)));
}

}  // namespace
}  // namespace reprise::protocol::grammar
