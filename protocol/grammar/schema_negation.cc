// What does not fit a schema, said in the words of schemas: alternatives, one for each way to break a keyword.

#include <algorithm>
#include <array>

#include "protocol/grammar/schema_parts.h"
#include "protocol/grammar/string_formats.h"

namespace reprise::protocol::grammar {
namespace {

Json of_type(const char* type) {
  Json schema = Json::object();
  schema["type"] = type;
  return schema;
}

Json with(Json schema, const char* keyword, Json value) {
  schema[keyword] = std::move(value);
  return schema;
}

Json list_of(Json item) {
  Json list = Json::array();
  list.push_back(std::move(item));
  return list;
}

// Keywords that say nothing about which values fit.
bool is_annotation(const std::string& keyword) {
  constexpr auto kMeaning = std::to_array<const char*>({"type",
                                                        "enum",
                                                        "const",
                                                        "properties",
                                                        "required",
                                                        "additionalProperties",
                                                        "patternProperties",
                                                        "propertyNames",
                                                        "minProperties",
                                                        "maxProperties",
                                                        "dependentRequired",
                                                        "dependentSchemas",
                                                        "dependencies",
                                                        "items",
                                                        "prefixItems",
                                                        "additionalItems",
                                                        "minItems",
                                                        "maxItems",
                                                        "uniqueItems",
                                                        "contains",
                                                        "minContains",
                                                        "maxContains",
                                                        "unevaluatedItems",
                                                        "unevaluatedProperties",
                                                        "minimum",
                                                        "maximum",
                                                        "exclusiveMinimum",
                                                        "exclusiveMaximum",
                                                        "multipleOf",
                                                        "minLength",
                                                        "maxLength",
                                                        "pattern",
                                                        "format",
                                                        "anyOf",
                                                        "oneOf",
                                                        "allOf",
                                                        "not",
                                                        "if",
                                                        "then",
                                                        "else",
                                                        "$ref",
                                                        "$dynamicRef",
                                                        "$recursiveRef",
                                                        kNotEnum,
                                                        kNotPattern});
  return std::find(kMeaning.begin(), kMeaning.end(), keyword) == kMeaning.end();
}

}  // namespace

std::vector<Schema> SchemaParts::negated(Schema schema) {
  const WorkBudget::Level level(source_.budget());
  source_.budget().charge(8 + 16 * schema->size());
  if (schema->is_bool())
    return schema->as_bool() ? std::vector<Schema>{} : std::vector<Schema>{source_.make(Json(true))};
  if (!schema->is_object()) throw GrammarError("a schema must be an object, true or false");
  std::vector<Schema> found;
  if (const std::string* reference = schema->find_string("$ref")) {
    found = negated(source_.resolve(*reference));
    if (source_.ref_stands_alone()) return found;
  }
  for (const Json::Member& keyword : schema->as_object()) {
    if (keyword.key != "$ref" && !is_annotation(keyword.key)) negate_keyword(*schema, keyword, found);
  }
  return found;
}

void SchemaParts::negate_keyword(const Json& schema, const Json::Member& keyword,
                                 std::vector<Schema>& found) {
  const std::string& name = keyword.key;
  const Json& value = keyword.value;
  const auto add = [&](Json one) { found.push_back(source_.make(std::move(one))); };
  const auto bound = [&](const char* type, const char* other, std::int64_t by) {
    if (!value.is_int()) fail_at(name, "must be a whole number");
    if (value.as_int() < 0 || value.as_int() > UINT32_MAX) fail_at(name, "is too large or below 0");
    if (value.as_int() + by >= 0) add(with(of_type(type), other, value.as_int() + by));
  };
  const auto is_strict = [&](const char* word) {
    const Json* strict = schema.find(word);
    return strict != nullptr && strict->is_bool() && strict->as_bool();
  };
  if (name == "type") {
    const std::uint32_t others = kAnyType & ~types_of(value);
    Json types = Json::array();
    for (const auto& [bit, word] :
         {std::pair{kNullType, "null"}, std::pair{kBoolType, "boolean"}, std::pair{kStringType, "string"},
          std::pair{kArrayType, "array"}, std::pair{kObjectType, "object"}}) {
      if ((others & bit) != 0) types.push_back(word);
    }
    if ((others & kIntegerType) != 0) types.push_back("number");
    if ((others & (kIntegerType | kFractionType)) == kFractionType) types.push_back(kFraction);
    if (types.size() > 0) add(with(Json::object(), "type", std::move(types)));
  } else if (name == "enum" || name == "const") {
    Json values = name == "enum" ? source_.copy(value) : list_of(source_.copy(value));
    for (const Json& one : list_at(name, values)) {
      if (one.is_array() || one.is_object()) fail_at("not", "lists and objects cannot be excluded");
    }
    add(with(Json::object(), kNotEnum, std::move(values)));
  } else if (name == "required") {
    for (const Json& one : list_at(name, value)) {
      if (!one.is_string()) fail_at("required", "must be a list of names");
      add(with(of_type("object"), "properties", Json{{one.as_string(), Json(false)}}));
    }
  } else if (name == "properties") {
    const Names names = names_of_others_;
    const NamesInForce of_the_value(*this, nullptr);
    for (const Json::Member& property : object_at(name, value)) {
      if (names != nullptr && !std::binary_search(names->begin(), names->end(), property.key)) continue;
      for (const Schema other : negated(&property.value)) {
        Json one = with(of_type("object"), "required", list_of(property.key));
        add(with(std::move(one), "properties", Json{{property.key, source_.copy(*other)}}));
      }
    }
  } else if (name == "pattern") {
    add(with(of_type("string"), kNotPattern, value));
  } else if (name == "format") {
    const char* pattern = value.is_string() ? pattern_of_format(value.as_string()) : nullptr;
    if (pattern != nullptr) {
      add(with(of_type("string"), kNotPattern, "^(?:" + std::string(pattern) + ")$"));
    } else if (value.is_string() && is_defined_format(value.as_string())) {
      fail_at("not", "the format '" + value.as_string() + "' cannot be negated");
    }  // else an annotation: everything fits
  } else if (name == "minimum") {
    add(with(of_type("number"), is_strict("exclusiveMinimum") ? "maximum" : "exclusiveMaximum", value));
  } else if (name == "maximum") {
    add(with(of_type("number"), is_strict("exclusiveMaximum") ? "minimum" : "exclusiveMinimum", value));
  } else if (name == "exclusiveMinimum") {
    if (value.is_number()) add(with(of_type("number"), "maximum", value));
  } else if (name == "exclusiveMaximum") {
    if (value.is_number()) add(with(of_type("number"), "minimum", value));
  } else if (name == "minLength") {
    bound("string", "maxLength", -1);
  } else if (name == "maxLength") {
    bound("string", "minLength", 1);
  } else if (name == "minItems") {
    bound("array", "maxItems", -1);
  } else if (name == "maxItems") {
    bound("array", "minItems", 1);
  } else if (name == "minProperties") {
    bound("object", "maxProperties", -1);
  } else if (name == "maxProperties") {
    bound("object", "minProperties", 1);
  } else if (name == "allOf") {
    for (const Json& one : list_at(name, value)) {
      for (const Schema other : negated(&one)) found.push_back(other);
    }
  } else if (name == "anyOf") {
    Json all = Json::array();
    for (const Json& one : list_at(name, value)) {
      Json any = Json::array();
      for (const Schema other : negated(&one)) any.push_back(source_.copy(*other));
      if (any.size() == 0) return;  // one of them always fits
      all.push_back(with(Json::object(), "anyOf", std::move(any)));
    }
    add(with(Json::object(), "allOf", std::move(all)));
  } else if (name == "oneOf") {
    negate_one_of(value, found);
  } else if (name == "not") {
    found.push_back(&value);
  } else if ((name == "additionalProperties" || name == "patternProperties") && names_of_others_ != nullptr) {
    negate_for_names(schema, name, found);
  } else if (name == "additionalProperties" && value.is_bool() && value.as_bool()) {
    return;
  } else {
    fail_at("not", "'" + name + "' cannot be negated");
  }
}

// None of the options fits, or two do.
void SchemaParts::negate_one_of(const Json& options, std::vector<Schema>& found) {
  constexpr std::size_t kMostOptions = 12;
  if (!options.is_array() || options.size() > kMostOptions) fail_at("not", "'oneOf' has too many options");
  Json none = Json::array();
  bool one_always_fits = false;
  for (const Json& one : options.as_array()) {
    Json any = Json::array();
    for (const Schema other : negated(&one)) any.push_back(source_.copy(*other));
    one_always_fits = one_always_fits || any.size() == 0;
    none.push_back(with(Json::object(), "anyOf", std::move(any)));
  }
  if (!one_always_fits) found.push_back(source_.make(with(Json::object(), "allOf", std::move(none))));
  for (std::size_t i = 0; i < options.size(); ++i) {
    for (std::size_t j = i + 1; j < options.size(); ++j) {
      Json both = list_of(source_.copy(options.as_array()[i]));
      both.push_back(source_.copy(options.as_array()[j]));
      found.push_back(source_.make(with(Json::object(), "allOf", std::move(both))));
    }
  }
}

// What is said of members that are no declared property's, where it is known what names members can have at all: one of
// these is there, and its value does not fit.
void SchemaParts::negate_for_names(const Json& schema, const std::string& keyword,
                                   std::vector<Schema>& found) {
  const Json* properties = schema.find_object("properties");
  const Json* patterns = schema.find_object("patternProperties");
  const auto add = [&](const std::string& name, const Json& value) {
    const NamesInForce of_the_value(*this, nullptr);
    for (const Schema other : negated(&value)) {
      Json one = with(of_type("object"), "required", list_of(name));
      found.push_back(source_.make(with(std::move(one), "properties", Json{{name, source_.copy(*other)}})));
    }
  };
  for (const std::string& name : *names_of_others_) {
    bool named = properties != nullptr && properties->find(name) != nullptr;
    if (patterns != nullptr) {
      for (const Json::Member& pattern : patterns->as_object()) {
        if (!source_.pattern_fits(pattern.key, name)) continue;
        named = true;
        if (keyword == "patternProperties") add(name, pattern.value);
      }
    }
    if (keyword == "additionalProperties" && !named) add(name, *schema.find(keyword));
  }
}

}  // namespace reprise::protocol::grammar
