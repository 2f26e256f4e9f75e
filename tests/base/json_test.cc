#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/base/colliding_keys.h"
#include "tests/require.h"

namespace reprise::protocol {
namespace {

Json parsed(std::string_view text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json.ok()) << text << ": " << (json.ok() ? "" : json.error().message);
  return json.ok() ? *json : Json();
}

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  const auto json = Json::parse(text, limits);
  return json.ok() ? "no error" : json.error().message;
}

std::string repr(double value) {
  std::string out;
  append_python_double(out, value);
  return out;
}

TEST(JsonValue, WritesBackWhatItRead) {
  for (const char* text : {"null", "true", "false", "0", "-1", "9223372036854775807", "-9223372036854775808",
                           "1.0", "0.1", "1e+22", "1e-07", R"("")", R"("a\"b\\c\n")", "[]", "{}",
                           R"([1,2.0,[],{"a":null}])", R"({"z":1,"a":{"y":[true]},"b":"é😀"})"}) {
    EXPECT_EQ(parsed(text).dump(), text);
  }
}

TEST(JsonValue, IntegersAndDoublesStayApart) {
  EXPECT_TRUE(parsed("1").is_int());
  EXPECT_TRUE(parsed("1.0").is_double());
  EXPECT_TRUE(parsed("1e2").is_double());
  EXPECT_TRUE(parsed("18446744073709551615").is_double());
  EXPECT_EQ(parsed("3").as_double(), 3.0);
  EXPECT_NE(Json(1), Json(1.0));
}

TEST(JsonValue, DoublesAreWrittenAsPythonDoes) {
  EXPECT_EQ(repr(1.0), "1.0");
  EXPECT_EQ(repr(-0.0), "-0.0");
  EXPECT_EQ(repr(0.1), "0.1");
  EXPECT_EQ(repr(123456.789), "123456.789");
  EXPECT_EQ(repr(1e15), "1000000000000000.0");
  EXPECT_EQ(repr(1e16), "1e+16");
  EXPECT_EQ(repr(1.5e16), "1.5e+16");
  EXPECT_EQ(repr(1e22), "1e+22");
  EXPECT_EQ(repr(1e-4), "0.0001");
  EXPECT_EQ(repr(1.25e-5), "1.25e-05");
  EXPECT_EQ(repr(5e-324), "5e-324");
  EXPECT_EQ(repr(1.7976931348623157e308), "1.7976931348623157e+308");
  EXPECT_EQ(repr(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(repr(std::nan("")), "nan");
}

TEST(JsonValue, NumbersThatJsonCannotSay) {
  const Json infinite(-std::numeric_limits<double>::infinity());
  EXPECT_EQ(infinite.dump(), "null");
  EXPECT_EQ(infinite.dump(JsonStyle::python()), "-Infinity");
}

TEST(JsonValue, OfAKeyThatComesTwiceTheLastCounts) {
  EXPECT_EQ(parsed(R"({"a":1,"b":2,"a":3})").dump(), R"({"a":3,"b":2})");
  std::string text = "{";
  for (int i = 0; i < 40; ++i) text += '"' + std::to_string(i % 20) + "\":" + std::to_string(i) + ',';
  text.back() = '}';
  const Json json = parsed(text);
  EXPECT_EQ(json.size(), 20u);
  EXPECT_EQ(json.as_object()[0].key, "0");
  EXPECT_EQ(json.find("0")->as_int(), 20);
  EXPECT_EQ(json.find("19")->as_int(), 39);
  EXPECT_EQ(parsed(R"({"a":1,"a":2,"a":{"a":3,"a":4},"b":5,"b":6})").dump(), R"({"a":{"a":4},"b":6})");
}

TEST(JsonValue, KeysThatCollideCostNoMoreThanOthers) {
  constexpr std::size_t kKeys = 100'000;
  const std::vector<std::string> keys = CollidingKeys::make(2);
  const std::hash<std::string> hash;
  if (hash(keys[0]) != hash(keys[1])) {
    REPRISE_SKIP_WITHOUT("libstdcxx", "another standard library, whose hash has other collisions");
  }
  const std::string text = '{' + colliding_members(kKeys) + '}';
  // A hash table would take five billion comparisons, longer than the test's timeout; sorted keys take two
  // million.
  EXPECT_EQ(parsed(text).size(), kKeys);
}

TEST(JsonValue, ErrorsSayWhatAndWhere) {
  EXPECT_EQ(error_of(""), "invalid JSON at line 1, column 1: there is no value");
  EXPECT_EQ(error_of("{\"a\":1,\n \"b\" 2}"), "invalid JSON at line 2, column 6: expected ':' after a key");
  EXPECT_EQ(error_of("[1 2]"), "invalid JSON at line 1, column 4: expected ',' or ']'");
  EXPECT_EQ(error_of("[1,"), "invalid JSON at line 1, column 4: the text ends where a value is expected");
  EXPECT_EQ(error_of("[1"), "invalid JSON at line 1, column 3: an array is not closed");
  EXPECT_EQ(error_of("[1,]"), "invalid JSON at line 1, column 4: expected a value");
  EXPECT_EQ(error_of("{} x"), "invalid JSON at line 1, column 4: there is text behind the value");
  EXPECT_EQ(error_of("[\"abc"), "invalid JSON at line 1, column 2: a string is not closed");
  EXPECT_EQ(error_of("\"\xC3\x28\""), "invalid JSON at line 1, column 2: invalid UTF-8");
  EXPECT_EQ(error_of("[\"é\", \"\xED\xA0\x80\"]"), "invalid JSON at line 1, column 8: invalid UTF-8");
  EXPECT_EQ(error_of(R"("\ud800")"), "invalid JSON at line 1, column 2: half of a surrogate pair");
  EXPECT_EQ(error_of("[01]"), "invalid JSON at line 1, column 2: a number with a leading zero");
  EXPECT_EQ(error_of("NaN"), "invalid JSON at line 1, column 1: expected a value");
  EXPECT_EQ(error_of("[123456789012345678901]"),
            "invalid JSON at line 1, column 2: an integer that does not fit 64 bits");
  EXPECT_EQ(error_of("\"a\nb\""), "invalid JSON at line 1, column 3: a control character inside a string");
}

TEST(JsonValue, LimitsAreKept) {
  JsonLimits limits;
  limits.depth = 3;
  EXPECT_EQ(error_of("[[[1]]]", limits), "no error");
  EXPECT_EQ(error_of("[[[]]]", limits), "no error");
  EXPECT_EQ(error_of("[{\"a\":{}}]", limits), "no error");
  EXPECT_EQ(error_of("[[[[]]]]", limits), "invalid JSON at line 1, column 4: nested deeper than 3");
  EXPECT_EQ(error_of("[[[[1]]]]", limits), "invalid JSON at line 1, column 4: nested deeper than 3");
  limits.values = 3;
  EXPECT_EQ(error_of("[1,2]", limits), "no error");
  EXPECT_EQ(error_of("[1,2,\n 3]", limits), "invalid JSON at line 2, column 2: more than 3 values");
  EXPECT_EQ(error_of("[1,[],", limits),
            "invalid JSON at line 1, column 7: the text ends where a value is expected");
  limits.values = 8;
  limits.members = 3;
  EXPECT_EQ(error_of(R"([{"a":{"b":1}},{"c":2}])", limits), "no error");
  EXPECT_EQ(error_of(R"([{"a":{"b":1}},{"c":2,"d":3}])", limits),
            "invalid JSON at line 1, column 23: more than 3 members of objects");
  EXPECT_EQ(error_of(R"({"a":1,"a":2,"a":3,"a":4})", limits),
            "invalid JSON at line 1, column 20: more than 3 members of objects");
  limits.bytes = 4;
  EXPECT_EQ(error_of("[1,2]", limits), "the JSON text has 5 bytes; the limit is 4");
  EXPECT_NE(error_of(std::string(2'000'000, '[')), "no error");
}

TEST(JsonValue, LooksUpWithoutChecksBefore) {
  const Json json = parsed(R"({"a":{"b":[1]},"s":"x"})");
  EXPECT_EQ(*json.find_string("s"), "x");
  EXPECT_EQ(json.find_string("a"), nullptr);
  EXPECT_EQ(json.find("none"), nullptr);
  EXPECT_EQ(Json(3).find("a"), nullptr);
  EXPECT_EQ(json.find_object("a")->find_array("b")->size(), 1u);
}

TEST(JsonValue, IsBuiltAndChanged) {
  Json json{{"role", "user"}, {"n", 1}};
  json["list"].push_back(true);
  json["list"].push_back(nullptr);
  json["n"] = 2.5;
  EXPECT_EQ(json.dump(), R"({"role":"user","n":2.5,"list":[true,null]})");
  EXPECT_TRUE(json.erase("n"));
  EXPECT_FALSE(json.erase("n"));
  EXPECT_EQ(json.dump(), R"({"role":"user","list":[true,null]})");
  EXPECT_EQ(Json::object().dump(), "{}");
  EXPECT_EQ(Json::array().dump(), "[]");
}

TEST(JsonValue, LayoutsOfPython) {
  const Json json = parsed(R"({"b":[1,{}],"a":"é\u007f"})");
  JsonStyle style = JsonStyle::python();
  EXPECT_EQ(json.dump(style), "{\"b\": [1, {}], \"a\": \"é\x7f\"}");
  style.ensure_ascii = true;
  style.sort_keys = true;
  EXPECT_EQ(json.dump(style), R"({"a": "\u00e9\u007f", "b": [1, {}]})");
  EXPECT_EQ(Json("😀").dump(style), R"("\ud83d\ude00")");
  style.item_separator = ",";
  style.indent = "  ";
  EXPECT_EQ(json.dump(style), "{\n  \"a\": \"\\u00e9\\u007f\",\n  \"b\": [\n    1,\n    {}\n  ]\n}");
}

TEST(Json, ReadsWhatPythonWrites) {
  constexpr JsonReading kPython{.python = true};
  const auto read = [&](std::string_view text) { return Json::parse(text, {}, kPython); };
  EXPECT_TRUE(std::isnan(read("NaN")->as_double()));
  EXPECT_EQ(read("[1, -Infinity]")->as_array()[1].as_double(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(read(R"(["NaN"])")->as_array()[0].as_string(), "NaN");
  EXPECT_EQ(read("123456789012345678901234567890")->as_double(), 123456789012345678901234567890.0);
  EXPECT_EQ(read("{Infinity: 1}").error().message, "invalid JSON: a key is not a string");
  EXPECT_EQ(read("[NaN, Infinity, x]").error().message,
            "invalid JSON at line 1, column 17: expected a value");
  EXPECT_FALSE(Json::parse("NaN").ok());
}

TEST(Json, RefusesKeysThatComeTwiceWhereAsked) {
  constexpr JsonReading kUnique{.unique_keys = true};
  EXPECT_TRUE(Json::parse(R"({"a": 1, "b": {"a": 2}})", {}, kUnique).ok());
  EXPECT_EQ(Json::parse(R"([{"b": 0, "a": 1, "\u0061": 2}])", {}, kUnique).error().message,
            "invalid JSON: the key 'a' is there twice in one object");
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += '"' + std::to_string(i) + "\": 0, ";
  EXPECT_TRUE(Json::parse(many + R"("x": 0})", {}, kUnique).ok());
  EXPECT_FALSE(Json::parse(many + R"("77": 0})", {}, kUnique).ok());
}

}  // namespace
}  // namespace reprise::protocol
