// Grower of JSON Schemas.
#include "tests/fuzz/grower_parts.h"

namespace reprise::fuzz {
namespace {

Json reference(std::size_t definition) {
  return Json{{"$ref", "#/$defs/d" + std::to_string(definition)}};
}

Json constant(Draws& draws, std::size_t bytes) {
  Json list = Json::array();
  for (std::size_t i = 0; i <= bytes / 6; ++i) {
    const bool is_number = draws.one_in(2);
    list.push_back(is_number ? Json(i) : Json(std::to_string(i)));
  }
  return list;
}

Json leaf(Draws& draws, std::size_t k) {
  Json schema = Json::object();
  switch (draws.below(6)) {
    case 0:
      schema["type"] = draws.pick({"string", "integer", "number", "array", "object", "null"});
      break;
    case 1:
      schema["const"] = Json(k);
      break;
    case 2:
      schema["minimum"] = Json(k);
      break;
    case 3: {
      const std::string pattern = grow_regex(draws, 9);
      schema["pattern"] = "^" + std::to_string(k) + pattern;
      break;
    }
    case 4: {
      const std::size_t divisor = 1 + draws.below(1'000'000);
      schema["multipleOf"] = Json(divisor);
      break;
    }
    default:
      schema["minLength"] = Json(k);
  }
  return schema;
}

/// One of `count` definitions, of about bytes / count.
class Definition {
 public:
  Definition(Draws& draws, std::size_t i, std::size_t count, std::size_t bytes)
      : draws_(draws),
        count_(count),
        own_(std::max<std::size_t>(bytes / count, 20)),
        next_(std::min(i + 1, count - 1)) {}

  Json grow() {
    switch (draws_.below(10)) {
      case 0:
        return reference(next_);
      case 1:
        return combination();
      case 2:
        return properties();
      case 3:
        return Json{{"enum", constant(draws_, own_)}};
      case 4: {
        Json schema = Json::object();
        schema["pattern"] = grow_regex(draws_, std::min<std::size_t>(own_, 4000));
        schema["maxLength"] = Json(draws_.below(5000));
        return schema;
      }
      case 5: {
        Json schema = Json::object();
        const char* keyword = draws_.pick({"not", "items", "propertyNames", "additionalProperties"});
        schema[keyword] = reference(next_);
        return schema;
      }
      case 6:
        return dependencies();
      case 7:
        return patterns();
      case 8:
        return siblings();
      default:
        return nest();
    }
  }

 private:
  Json one_of_several(std::size_t k) {
    const bool is_any = draws_.one_in(8);
    if (is_any) return reference(draws_.below(count_));
    if (k % 2 == 0) return reference(next_);
    return leaf(draws_, k);
  }

  /// allOf, anyOf or oneOf with up to thousands of branches, most of which refer to the next definition.
  Json combination() {
    const std::size_t max = draws_.one_in(2) ? 10 : 9999;
    const std::size_t many = 1 + draws_.below(std::min(own_ / 18 + 1, max));
    const char* keyword = draws_.pick({"allOf", "anyOf", "oneOf"});
    Json list = Json::array();
    for (std::size_t k = 0; k < many; ++k) list.push_back(one_of_several(k));
    Json schema = Json::object();
    schema[keyword] = std::move(list);
    return schema;
  }

  Json properties() {
    Json::Object properties;
    Json required = Json::array();
    for (std::size_t k = 0; k <= own_ / 24; ++k) {
      const bool leads_on = draws_.one_in(3);
      properties.push_back({"p" + std::to_string(k), leads_on ? reference(next_) : leaf(draws_, k)});
      if (draws_.one_in(3)) required.push_back("p" + std::to_string(k));
    }
    Json schema = Json::object();
    schema["properties"] = Json(std::move(properties));
    schema["required"] = std::move(required);
    if (draws_.one_in(2)) schema["additionalProperties"] = false;
    if (draws_.one_in(3)) schema["maxProperties"] = Json(draws_.below(own_));
    return schema;
  }

  Json dependencies() {
    Json::Object chain;
    for (std::size_t k = 0; k <= own_ / 24; ++k) {
      Json list = Json::array();
      list.push_back("n" + std::to_string(k + 1));
      chain.push_back({"n" + std::to_string(k), std::move(list)});
    }
    return Json{{"dependentRequired", Json(std::move(chain))}};
  }

  Json patterns() {
    Json::Object patterns;
    for (std::size_t k = 0; k <= own_ / 24; ++k) {
      const std::string pattern = grow_regex(draws_, 12);
      const bool leads_on = draws_.one_in(2);
      patterns.push_back({pattern + std::to_string(k), leads_on ? reference(next_) : leaf(draws_, k)});
    }
    return Json{{"patternProperties", Json(std::move(patterns))}};
  }

  /// Several keywords that must all hold, each with a reference: 2^n combinations unless these are shared.
  Json siblings() {
    Json schema = Json::object();
    for (const char* keyword : {"allOf", "anyOf", "oneOf"}) {
      Json list = Json::array();
      list.push_back(reference(next_));
      list.push_back(one_of_several(1));
      schema[keyword] = std::move(list);
    }
    schema["items"] = reference(draws_.below(count_));
    if (draws_.one_in(2)) schema["$ref"] = "#/$defs/d" + std::to_string(draws_.below(count_));
    return schema;
  }

  Json nest() {
    Json inner = reference(next_);
    const std::size_t levels = draws_.below(50);
    for (std::size_t k = 0; k < levels; ++k) {
      Json outer = Json::object();
      const char* keyword = draws_.pick({"items", "not", "additionalProperties", "if"});
      outer[keyword] = std::move(inner);
      inner = std::move(outer);
    }
    return inner;
  }

  Draws& draws_;
  const std::size_t count_;
  const std::size_t own_;   // approximate bytes of this one
  const std::size_t next_;  // index of the definition that it refers to
};

}  // namespace

Json grow_schema(Draws& draws, std::size_t bytes) {
  const bool many = draws.one_in(2);
  const std::size_t count = many ? 1 + draws.below(bytes / 60 + 1) : 1 + draws.below(3);
  Json::Object definitions;
  for (std::size_t i = 0; i < count; ++i) {
    Json definition = Definition(draws, i, count, bytes).grow();
    definitions.push_back({"d" + std::to_string(i), std::move(definition)});
  }
  Json whole = Json::object();
  whole["$defs"] = Json(std::move(definitions));
  const char* use = draws.pick({"$ref", "$ref", "x"});
  whole[use] = "#/$defs/d0";
  const std::string keyword =
      draws.pick({"not", "items", "propertyNames", "additionalProperties", "if", "x"});
  whole[keyword] = reference(0);
  if (keyword == "if") whole["then"] = reference(draws.below(count));
  if (draws.one_in(3)) whole["const"] = constant(draws, bytes / 20);
  return whole;
}

}  // namespace reprise::fuzz
