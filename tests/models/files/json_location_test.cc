#include "models/files/json_location.h"

#include <cmath>

#include "tests/models/expect_error.h"

namespace reprise::models {
namespace {

JsonLocation parse(std::string_view text) {
  return JsonLocation::parse(text, "config.json");
}

TEST(JsonLocation, ReadsEveryKind) {
  const JsonLocation json =
      parse(R"({"a": 1, "b": 2.5, "c": true, "d": "x\u00e9", "e": [1, 2], "f": {"g": -7}, "h": null})");
  EXPECT_EQ(json.at("a").integer(), 1);
  EXPECT_EQ(json.at("a").number(), 1.0);
  EXPECT_EQ(json.at("b").number(), 2.5);
  EXPECT_TRUE(json.at("c").boolean());
  EXPECT_EQ(json.at("d").text(), "x\xc3\xa9");
  EXPECT_EQ(json.at("e").integers(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(json.at("f").at("g").integer(), -7);
  EXPECT_FALSE(json.has("h"));
  EXPECT_EQ(json.size(), 7u);
  EXPECT_EQ(json.key_at(3), "d");
  EXPECT_EQ(json.value_at(3).text(), "x\xc3\xa9");
  EXPECT_EQ(json.integer_or("nothing", 5), 5);
  EXPECT_EQ(json.text_or("d", ""), "x\xc3\xa9");
}

TEST(JsonLocation, ReadsWhatPythonWrites) {
  const JsonLocation json = parse(
      R"({"NaN": [NaN, Infinity, -Infinity, "Infinity", "", "a\"NaN"], "big": 1000000000000000019884624838656,
          "Infinity": 12345678901234567890, "neg": -9223372036854775808, "e": 1.5e-7, "min": -1e5, "x": 9223372036854775807})");
  const JsonLocation list = json.at("NaN");
  EXPECT_TRUE(std::isnan(list.at(0).number()));
  EXPECT_EQ(list.at(1).number(), INFINITY);
  EXPECT_EQ(list.at(2).number(), -INFINITY);
  EXPECT_EQ(list.at(3).text(), "Infinity");
  EXPECT_EQ(list.at(4).text(), "");
  EXPECT_EQ(list.at(5).text(), "a\"NaN");
  EXPECT_DOUBLE_EQ(json.at("big").number(), 1e30);
  EXPECT_DOUBLE_EQ(json.at("Infinity").number(), 12345678901234567890.0);
  EXPECT_EQ(json.at("neg").number(), -9223372036854775808.0);
  EXPECT_EQ(json.at("x").integer(), INT64_MAX);
  EXPECT_EQ(json.at("e").number(), 1.5e-7);
  EXPECT_EQ(json.at("min").number(), -1e5);
}

TEST(JsonLocation, ErrorsNameFileAndPath) {
  const JsonLocation json = parse(R"({"text_config": {"hidden_size": "64", "layers": [1, "x"]}})");
  EXPECT_LOAD_ERROR(json.at("text_config").at("hidden_size").integer(),
                    "config.json: text_config.hidden_size: expected an integer, found a string");
  EXPECT_LOAD_ERROR(json.at("text_config").at("layers").integers(),
                    "config.json: text_config.layers[1]: expected an integer, found a string");
  EXPECT_LOAD_ERROR(json.at("text_config").at("vocab"), "config.json: text_config.vocab: is missing");
  EXPECT_LOAD_ERROR(json.at("text_config").at("layers").at("x"), "expected an object, found an array");
  EXPECT_LOAD_ERROR(json.at("text_config").at("layers").at(2), "has no item 2");
}

TEST(JsonLocation, RefusesWhatIsNotJson) {
  for (const char* text :
       {"", "{", "[1,]", "{\"a\" 1}", "nul", "\"", "01", "[1 2]", "{\"a\": \xff}", "\"\xc3\"", "--1",
        "Infinit", "NaNa", "{NaN: 1}", "{\"a\": 1, Infinity: 2}", "1 2", "+1", ".5", "-"}) {
    EXPECT_LOAD_ERROR(parse(text), "config.json: ") << text;
  }
}

TEST(JsonLocation, RefusesDuplicateKeys) {
  EXPECT_LOAD_ERROR(parse(R"({"x": {"a": 1, "b": 2, "a": 3}})"),
                    "config.json: invalid JSON: the key 'a' is there twice");
  EXPECT_LOAD_ERROR(parse(R"({"a": 1, "\u0061": 3})"), "is there twice");
}

TEST(JsonLocation, HasLimits) {
  JsonLimits limits = kFileJson;
  limits.bytes = 10;
  EXPECT_LOAD_ERROR(JsonLocation::parse("[1,2,3,4,5,6]", "f", limits), "the limit is 10");
  limits = {};
  limits.depth = 3;
  EXPECT_NO_THROW(JsonLocation::parse("[[[1]]]", "f", limits));
  EXPECT_LOAD_ERROR(JsonLocation::parse("[[[[1]]]]", "f", limits), "nested deeper than 3");
  EXPECT_LOAD_ERROR(parse(std::string(100000, '[') + std::string(100000, ']')), "config.json: ");
}

}  // namespace
}  // namespace reprise::models
