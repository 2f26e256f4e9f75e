// JSON of requests and of model files: one reader, which accepts more when it reads as Python does.
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/json.h"
#include "models/files/json_location.h"
#include "models/files/load_error.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {
namespace {

constexpr std::size_t kDepth = 64;

/// Compares values, including those that JSON numbers cannot represent.
bool same(const Json& a, const models::JsonLocation& b) {
  using Kind = models::JsonLocation::Kind;
  switch (b.kind()) {
    case Kind::kNull:
      return a.is_null();
    case Kind::kBool:
      return a.is_bool() && a.as_bool() == b.boolean();
    case Kind::kInt:
      return a.is_int() && a.as_int() == b.integer();
    case Kind::kDouble:
      return a.is_double() && a.as_double() == b.number();
    case Kind::kString:
      return a.is_string() && a.as_string() == b.text();
    case Kind::kArray:
      if (!a.is_array() || a.size() != b.size()) return false;
      for (std::size_t i = 0; i < b.size(); ++i) {
        if (!same(a.as_array()[i], b.at(i))) return false;
      }
      return true;
    case Kind::kObject:
      if (!a.is_object() || a.size() != b.size()) return false;
      for (std::size_t i = 0; i < b.size(); ++i) {
        const auto& member = a.as_object()[i];
        if (member.key != b.key_at(i) || !same(member.value, b.value_at(i))) return false;
      }
      return true;
  }
  return false;
}

void expect_read_again(const Json& value, const JsonStyle& style) {
  const std::string text = value.dump(style);
  const auto again = Json::parse(text, {.depth = kDepth});
  REPRISE_CHECK(again.ok(), "what was written cannot be read");
  REPRISE_CHECK(style.sort_keys || *again == value, "what was written reads as another value");
  REPRISE_CHECK(again->dump(style) == text, "what was written is written in another way");
}

void walk(const models::JsonLocation& value) {
  using Kind = models::JsonLocation::Kind;
  REPRISE_CHECK(!value.file().empty(), "a value without its file");
  if (value.is(Kind::kArray)) {
    for (std::size_t i = 0; i < value.size(); ++i) walk(value.at(i));
  } else if (value.is(Kind::kObject)) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      const models::JsonLocation member = value.value_at(i);
      const auto found = value.find(value.key_at(i));
      REPRISE_CHECK(found.has_value() != member.is(Kind::kNull), "a member that cannot be found");
      REPRISE_CHECK(!found || found->kind() == member.kind(), "a member that is found as another");
      walk(member);
    }
  }
}

}  // namespace

bool fuzz_json(std::string_view input) {
  const auto value = Json::parse(input, {.depth = kDepth});
  const JsonFault fault = diagnose_json(input, {.depth = kDepth});
  REPRISE_CHECK(fault.offset <= input.size(), "a fault behind the text");
  if (!value.ok()) {
    REPRISE_CHECK(!value.error().message.empty(), "a refusal without a reason");
    REPRISE_CHECK(value.error().offset <= input.size(), "an error behind the text");
    return false;
  }
  REPRISE_CHECK(fault.reason.empty(), "the reader takes what the diagnosis refuses");
  expect_read_again(*value, {});
  expect_read_again(*value, JsonStyle::python());
  expect_read_again(*value, {.indent = "  ", .ensure_ascii = true});
  expect_read_again(*value, {.sort_keys = true});
  try {
    const models::JsonLocation other = models::JsonLocation::parse(input, "fuzz.json", {.depth = kDepth});
    REPRISE_CHECK(same(*value, other), "the two readers of JSON disagree");
  } catch (const models::LoadError&) {  // a duplicate key
  }
  return true;
}

bool fuzz_model_json(std::string_view input) {
  try {
    walk(models::JsonLocation::parse(input, "fuzz.json"));
    return true;
  } catch (const models::LoadError& error) {
    REPRISE_CHECK(!error.reason().empty(), "a refusal without a reason");
    return false;
  }
}

}  // namespace reprise::fuzz
