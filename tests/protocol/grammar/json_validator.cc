#include "tests/protocol/grammar/json_validator.h"

#include <cmath>
#include <regex>

namespace reprise::protocol {
namespace {

bool equal(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.as_double() == b.as_double();
  if (a.is_object() && b.is_object()) {
    if (a.size() != b.size()) return false;
    for (const auto& member : a.as_object()) {
      const Json* other = b.find(member.key);
      if (other == nullptr || !equal(member.value, *other)) return false;
    }
    return true;
  }
  if (a.is_array() && b.is_array()) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!equal(a.as_array()[i], b.as_array()[i])) return false;
    }
    return true;
  }
  return a == b;
}

bool is_of_type(const std::string& type, const Json& value) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_bool();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "number") return value.is_number();
  return type == "integer" && value.is_number() && value.as_double() == std::floor(value.as_double());
}

std::size_t characters(const std::string& text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

bool matches(const std::string& pattern, const std::string& text) {
  return std::regex_search(text, std::regex(pattern, std::regex::ECMAScript));
}

double number(const Json& schema, const char* keyword, double otherwise) {
  const Json* found = schema.find(keyword);
  return found == nullptr ? otherwise : found->as_double();
}

bool object_fits(const Json& root, const Json& schema, const Json& value) {
  const auto size = static_cast<double>(value.size());
  if (size < number(schema, "minProperties", 0) || size > number(schema, "maxProperties", INFINITY))
    return false;
  if (const auto* required = schema.find_array("required")) {
    for (const Json& name : *required) {
      if (value.find(name.as_string()) == nullptr) return false;
    }
  }
  for (const auto& member : value.as_object()) {
    bool named = false;
    if (const Json* properties = schema.find("properties")) {
      if (const Json* own = properties->find(member.key)) {
        named = true;
        if (!validates(root, *own, member.value)) return false;
      }
    }
    if (const Json* patterns = schema.find("patternProperties")) {
      for (const auto& pattern : patterns->as_object()) {
        if (!matches(pattern.key, member.key)) continue;
        named = true;
        if (!validates(root, pattern.value, member.value)) return false;
      }
    }
    const Json* others = schema.find("additionalProperties");
    if (!named && others != nullptr && !validates(root, *others, member.value)) return false;
  }
  return true;
}

bool array_fits(const Json& root, const Json& schema, const Json& value) {
  const auto size = static_cast<double>(value.size());
  if (size < number(schema, "minItems", 0) || size > number(schema, "maxItems", INFINITY)) return false;
  const auto* first = schema.find_array("prefixItems");
  const Json* rest = schema.find("items");
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Json* item = first != nullptr && i < first->size() ? &(*first)[i] : rest;
    if (item != nullptr && !validates(root, *item, value.as_array()[i])) return false;
  }
  return true;
}

bool scalar_fits(const Json& schema, const Json& value) {
  if (value.is_string()) {
    const auto length = static_cast<double>(characters(value.as_string()));
    if (length < number(schema, "minLength", 0) || length > number(schema, "maxLength", INFINITY))
      return false;
    if (const auto* pattern = schema.find_string("pattern")) {
      if (!matches(*pattern, value.as_string())) return false;
    }
  }
  if (value.is_number()) {
    const double x = value.as_double();
    if (x < number(schema, "minimum", -INFINITY) || x > number(schema, "maximum", INFINITY)) return false;
    if (x <= number(schema, "exclusiveMinimum", -INFINITY) ||
        x >= number(schema, "exclusiveMaximum", INFINITY))
      return false;
    const double step = number(schema, "multipleOf", 0);
    if (step != 0 && std::abs(x / step - std::round(x / step)) > 1e-9) return false;
  }
  return true;
}

}  // namespace

bool validates(const Json& root, const Json& schema, const Json& value) {
  if (schema.is_bool()) return schema.as_bool();
  if (const auto* reference = schema.find_string("$ref")) {
    const Json* target = *reference == "#" ? &root : root.find("$defs")->find(reference->substr(8));
    if (!validates(root, *target, value)) return false;
  }
  if (const Json* type = schema.find("type")) {
    bool fits = type->is_string() && is_of_type(type->as_string(), value);
    if (type->is_array()) {
      for (const Json& one : type->as_array()) fits = fits || is_of_type(one.as_string(), value);
    }
    if (!fits) return false;
  }
  if (const auto* list = schema.find_array("enum")) {
    bool found = false;
    for (const Json& one : *list) found = found || equal(one, value);
    if (!found) return false;
  }
  if (const Json* one = schema.find("const"); one != nullptr && !equal(*one, value)) return false;
  const auto fitting = [&](const char* keyword) {
    std::size_t count = 0;
    for (const Json& one : *schema.find_array(keyword)) count += validates(root, one, value) ? 1 : 0;
    return count;
  };
  if (schema.find_array("anyOf") != nullptr && fitting("anyOf") == 0) return false;
  if (schema.find_array("oneOf") != nullptr && fitting("oneOf") != 1) return false;
  if (const auto* all = schema.find_array("allOf"); all != nullptr && fitting("allOf") != all->size())
    return false;
  if (const Json* no = schema.find("not"); no != nullptr && validates(root, *no, value)) return false;
  if (value.is_object() && !object_fits(root, schema, value)) return false;
  if (value.is_array() && !array_fits(root, schema, value)) return false;
  return scalar_fits(schema, value);
}

}  // namespace reprise::protocol
