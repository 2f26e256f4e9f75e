#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "protocol/grammar/char_dfa.h"
#include "protocol/grammar/json_schema.h"
#include "protocol/grammar/program.h"
#include "protocol/grammar/regex.h"

namespace reprise::protocol::grammar {
namespace {

// Rejects keywords that would restrict values and are not supported. Harmless values such as `false` are
// accepted.
void refuse_unsupported(const Json& schema) {
  constexpr auto kRefused = std::to_array<const char*>(
      {"contains", "minContains", "maxContains", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef",
       "$recursiveRef", "extends", "disallow", "divisibleBy"});
  for (const char* keyword : kRefused) {
    if (schema.find(keyword) != nullptr) fail_at(keyword, "is not supported");
  }
}

std::uint32_t whole_number(const char* keyword, const Json& value) {
  if (!value.is_number() || value.as_double() < 0 || value.as_double() != std::floor(value.as_double())) {
    fail_at(keyword, "must be a whole number, not below 0");
  }
  return value.as_double() >= static_cast<double>(kUnbounded) ? kUnbounded
                                                              : static_cast<std::uint32_t>(value.as_double());
}

}  // namespace

std::uint32_t types_of(const Json& types) {
  if (types.is_array()) {
    std::uint32_t all = 0;
    for (const Json& type : types.as_array()) {
      if (type.is_array()) fail_at("type", "must be a name or a list of names");
      all |= types_of(type);
    }
    return all;
  }
  static const std::map<std::string, std::uint32_t> kTypes = {
      {"null", kNullType},       {"boolean", kBoolType},
      {"integer", kIntegerType}, {"number", kIntegerType | kFractionType},
      {"string", kStringType},   {"array", kArrayType},
      {"object", kObjectType},   {kFraction, kFractionType}};
  if (!types.is_string()) fail_at("type", "must be a name or a list of names");
  const auto found = kTypes.find(types.as_string());
  if (found == kTypes.end()) fail_at("type", "there is no type '" + types.as_string() + "'");
  return found->second;
}

// An alternative that is not completely expanded.
struct SchemaParts::Open {
  Alternative part{};
  std::set<Schema> met{};
  std::vector<std::vector<SchemaSet>> choices{};  // for each choice, its options
  std::vector<const Json*> exclusive{};           // oneOf, expanded after all else
  bool impossible = false;
  std::size_t bytes() const;
  bool loose = false;  // may allow invalid values, which is sufficient for proving disjointness
};

std::vector<Alternative> SchemaParts::alternatives(const SchemaSet& set) {
  return taken_apart(set, false);
}

std::vector<Alternative> SchemaParts::loose_alternatives(const SchemaSet& set) {
  return taken_apart(set, true);
}

std::vector<Alternative> SchemaParts::taken_apart(const SchemaSet& set, bool loose) {
  Open open{.loose = loose};
  for (const Schema schema : set) expand(schema, open);
  std::vector<Alternative> found;
  divide(std::move(open), found);
  return found;
}

void SchemaParts::expand(Schema schema, Open& open) {
  WorkBudget& budget = source_.budget();
  const WorkBudget::Level level(budget);
  if (schema->is_bool()) {
    open.impossible = open.impossible || !schema->as_bool();
    return;
  }
  if (!schema->is_object()) throw GrammarError("a schema must be an object, true or false");
  if (!open.met.insert(schema).second) return;
  budget.charge(8 + 16 * schema->size());  // keywords are looked up one by one
  if (const Json* reference = schema->find("$ref"); reference != nullptr && reference->is_string()) {
    expand(source_.resolve(reference->as_string()), open);
    if (source_.ref_stands_alone()) return;
  }
  refuse_unsupported(*schema);
  open.part.bases.push_back(schema);
  if (const Json* types = schema->find("type")) {
    budget.charge(4 * types->size());
    open.part.types &= types_of(*types);
  }
  if (open.part.types == 0) open.impossible = true;
  if (const Json* all = schema->find("allOf")) {
    if (!all->is_array()) fail_at("allOf", "must be a list");
    for (const Json& one : all->as_array()) expand(&one, open);
  }
  expand_choices(schema, open);
}

void SchemaParts::expand_choices(Schema schema, Open& open) {
  if (const Json* any = schema->find("anyOf")) {
    if (!any->is_array()) fail_at("anyOf", "must be a list");
    auto& choice = open.choices.emplace_back();
    source_.budget().charge(4 * any->size());
    for (const Json& one : any->as_array()) choice.push_back({&one});
  }
  if (const Json* one = schema->find("oneOf")) {
    if (!one->is_array()) fail_at("oneOf", "must be a list");
    source_.budget().charge(4 * one->size());
    if (open.loose) {
      auto& choice = open.choices.emplace_back();
      for (const Json& option : one->as_array()) choice.push_back({&option});
    } else {
      open.exclusive.push_back(one);
    }
  }
  if (open.loose) return;
  if (const Json* no = schema->find("not")) {
    auto& choice = open.choices.emplace_back();
    for (const Schema other : negated(no)) choice.push_back({other});
  }
  if (const Json* condition = schema->find("if")) {
    const Json* then = schema->find("then");
    const Json* otherwise = schema->find("else");
    if (then != nullptr || otherwise != nullptr) {
      auto& choice = open.choices.emplace_back();
      choice.push_back(then == nullptr ? SchemaSet{condition} : SchemaSet{condition, then});
      for (const Schema other : negated(condition)) {
        choice.push_back(otherwise == nullptr ? SchemaSet{other} : SchemaSet{other, otherwise});
      }
    }
  }
  for (const char* keyword : {"dependentSchemas", "dependencies"}) {
    const Json* needs = schema->find_object(keyword);
    if (needs == nullptr) continue;
    for (const Json::Member& need : needs->as_object()) {
      if (need.value.is_array()) continue;  // lists of names are handled with the object
      Json absent = Json::object();
      absent["properties"] = Json::object();
      absent["properties"][need.key] = false;
      Json present = Json::object();
      present["type"] = "object";
      present["required"] = Json::array();
      present["required"].push_back(need.key);
      open.choices.push_back(
          {{source_.make(std::move(absent))}, {source_.make(std::move(present)), &need.value}});
    }
  }
}

std::size_t SchemaParts::Open::bytes() const {
  std::size_t sets = 0;
  for (const auto& choice : choices) sets += 1 + choice.size();
  return 256 + part.bases.size() * sizeof(Schema) + met.size() * 48 + sets * 40;
}

void SchemaParts::divide(Open open, std::vector<Alternative>& found) {
  if (open.impossible) return;
  WorkBudget& budget = source_.budget();
  const WorkBudget::Level level(budget);
  if (++looked_at_ > budget.limits().schemas) {
    throw GrammarError("its alternatives are too many: more than " + std::to_string(budget.limits().schemas));
  }
  if (open.choices.empty() && !open.exclusive.empty()) {
    const Json* options = open.exclusive.back();
    open.exclusive.pop_back();
    open.choices.push_back(exclusive(*options, open));
  }
  if (open.choices.empty()) {
    budget.take(sizeof(Alternative) + open.part.bases.size() * sizeof(Schema));
    found.push_back(std::move(open.part));
    return;
  }
  const auto fewest = std::min_element(open.choices.begin(), open.choices.end(),
                                       [](const auto& a, const auto& b) { return a.size() < b.size(); });
  const std::vector<SchemaSet> choice = std::move(*fewest);
  open.choices.erase(fewest);
  WorkBudget::Held held(budget);
  const std::size_t bytes = open.bytes();
  held.add(bytes + choice.size() * 40);
  for (const SchemaSet& set : choice) {
    budget.charge(bytes / 16);
    Open one = open;
    for (const Schema schema : set) expand(schema, one);
    divide(std::move(one), found);
  }
}

namespace {

// Returns all names that members can have; nothing: other names are allowed.
std::optional<std::vector<std::string>> closed_names(const std::vector<Alternative>& parts,
                                                     WorkBudget& budget) {
  std::vector<std::string> names;
  for (const Alternative& part : parts) {
    if ((part.types & kObjectType) == 0) continue;
    const auto closed = std::find_if(part.bases.begin(), part.bases.end(), [](Schema base) {
      const Json* others = base->find("additionalProperties");
      return others != nullptr && others->is_bool() && !others->as_bool() &&
             base->find("patternProperties") == nullptr;
    });
    if (closed == part.bases.end()) return std::nullopt;
    const Json* properties = (*closed)->find_object("properties");
    if (properties == nullptr) continue;
    budget.charge(8 * properties->size());
    for (const Json::Member& property : properties->as_object()) names.push_back(property.key);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

// Returns each option minus the values that other options accept.
std::vector<SchemaSet> SchemaParts::exclusive(const Json& options, const Open& open) {
  const std::size_t count = options.size();
  WorkBudget& budget = source_.budget();
  std::vector<std::vector<Alternative>> parts(count);
  for (std::size_t i = 0; i < count; ++i) {
    budget.charge(open.bytes() / 16);
    Open one = open;
    one.exclusive.clear();
    one.loose = true;
    expand(&options.as_array()[i], one);
    divide(std::move(one), parts[i]);
  }
  std::vector<SchemaSet> sets(count);
  for (std::size_t i = 0; i < count; ++i) sets[i].push_back(&options.as_array()[i]);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = i + 1; j < count; ++j) {
      budget.charge();
      if (disjoint(parts[i], parts[j], 0)) continue;
      if (only_empty_lists_in_common(parts[i], parts[j])) {
        const Json empty = Json::array();
        if (!source_.fits(&options.as_array()[i], empty) || !source_.fits(&options.as_array()[j], empty))
          continue;
        for (const std::size_t one : {i, j}) sets[one].push_back(source_.make(Json{{"minItems", 1}}));
        continue;
      }
      const auto keep_apart = [&](std::size_t from, std::size_t other) {
        const auto names = closed_names(parts[from], budget);
        const NamesInForce in_force(*this, names ? &*names : nullptr);
        Json any = Json::object();
        any["anyOf"] = Json::array();
        for (const Schema schema : negated(&options.as_array()[other]))
          any["anyOf"].push_back(source_.copy(*schema));
        sets[from].push_back(source_.make(std::move(any)));
      };
      try {
        keep_apart(i, j);
        keep_apart(j, i);
      } catch (const GrammarError& error) {
        fail_at("oneOf", "alternatives " + std::to_string(i) + " and " + std::to_string(j) +
                             " may both fit a value, and cannot be kept apart (" + error.what() + ")");
      }
    }
  }
  return sets;
}

// -- properties of an alternative

std::uint32_t SchemaParts::max_of(const Alternative& part, const char* keyword) const {
  std::uint32_t max = kUnbounded;
  for (const Schema base : part.bases) {
    if (const Json* value = base->find(keyword)) max = std::min(max, whole_number(keyword, *value));
  }
  return max;
}

std::uint32_t SchemaParts::min_of(const Alternative& part, const char* keyword) const {
  std::uint32_t min = 0;
  for (const Schema base : part.bases) {
    if (const Json* value = base->find(keyword)) min = std::max(min, whole_number(keyword, *value));
  }
  return min;
}

SchemaSet SchemaParts::of_property(const Alternative& part, const std::string& name) {
  SchemaSet set;
  for (const Schema base : part.bases) {
    source_.budget().charge(4 + 4 * base->size());
    bool named = false;
    const Json* properties = base->find_object("properties");
    if (const Json* own = properties == nullptr ? nullptr : source_.member(*properties, name)) {
      set.push_back(own);
      named = true;
    }
    if (const Json* patterns = base->find_object("patternProperties")) {
      for (const Json::Member& pattern : patterns->as_object()) {
        if (!source_.pattern_fits(pattern.key, name)) continue;
        set.push_back(&pattern.value);
        named = true;
      }
    }
    if (const Json* others = named ? nullptr : base->find("additionalProperties")) set.push_back(others);
    if (const Json* names = base->find("propertyNames");
        names != nullptr && !source_.fits(names, Json(name))) {
      set.push_back(source_.make(Json(false)));
    }
  }
  return set;
}

SchemaSet SchemaParts::of_item(const Alternative& part, std::size_t index) const {
  SchemaSet set;
  for (const Schema base : part.bases) {
    source_.budget().charge(1 + 2 * base->size());
    const Json* items = base->find("items");
    const Json* first = base->find("prefixItems");
    const Json* rest = items;
    if (items != nullptr && items->is_array()) {
      first = items;
      rest = base->find("additionalItems");
    }
    const Json* item =
        first != nullptr && index < list_at("prefixItems", *first).size() ? &first->as_array()[index] : rest;
    if (item != nullptr) set.push_back(item);
  }
  return set;
}

std::size_t SchemaParts::first_items(const Alternative& part) const {
  std::size_t max = 0;
  for (const Schema base : part.bases) {
    for (const char* keyword : {"items", "prefixItems"}) {
      const Json* items = base->find(keyword);
      if (items != nullptr && items->is_array()) max = std::max(max, items->size());
    }
  }
  return max;
}

std::vector<std::string> SchemaParts::required(const Alternative& part) const {
  std::vector<std::string> names;
  for (const Schema base : part.bases) {
    const auto* list = base->find_array("required");
    if (list == nullptr) continue;
    source_.budget().charge(8 * list->size());
    for (const Json& name : *list) {
      if (name.is_string()) names.push_back(name.as_string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<Json> SchemaParts::constants(const Alternative& part, bool& has) {
  const auto is_of_choices = [](const std::string& keyword) {
    constexpr auto kChoices =
        std::to_array<std::string_view>({"anyOf", "oneOf", "allOf", "not", "if", "$ref"});
    return std::find(kChoices.begin(), kChoices.end(), keyword) != kChoices.end();
  };
  std::vector<Json> values;
  Schema giver = nullptr;
  for (const Schema base : part.bases) {
    const Json* list = base->find("enum");
    const Json* one = base->find("const");
    if (list != nullptr && !list->is_array()) fail_at("enum", "must be a list");
    if (list == nullptr && one == nullptr) continue;
    giver = base;
    const Json copied = source_.copy(one != nullptr ? *one : *list);
    values = one != nullptr ? std::vector<Json>{copied} : copied.as_array();
    break;
  }
  has = giver != nullptr;
  if (!has) return values;
  // Choices are resolved: check each schema's own keywords.
  for (const Schema base : part.bases) {
    Json::Object own;
    for (const Json::Member& member : base->as_object()) {
      const bool says_so_itself = base == giver && member.key == (base->find("const") ? "const" : "enum");
      if (!is_of_choices(member.key) && !says_so_itself)
        own.push_back({member.key, source_.copy(member.value)});
    }
    const Schema rest = source_.make(Json(std::move(own)));
    std::erase_if(values, [&](const Json& value) { return !source_.fits(rest, value); });
  }
  return values;
}

bool SchemaParts::add_string_parts(const Alternative& part, CharProduct& product) {
  WorkBudget& budget = source_.budget();
  for (const Schema base : part.bases) {
    budget.charge(4 + 4 * base->size());
    if (const Json* pattern = base->find("pattern")) {
      if (!pattern->is_string()) fail_at("pattern", "must be a string");
      try {
        product.add(pattern_part(parse_regex(pattern->as_string(), true, budget), budget));
      } catch (const GrammarError& error) {
        fail_at("pattern", error.what());
      }
    }
    if (const std::string* pattern = base->find_string(kNotPattern)) {
      product.add(negated_part(pattern_part(parse_regex(*pattern, true, budget), budget)));
    }
    if (const std::string* format = base->find_string("format")) {
      const char* pattern = pattern_of_format(*format);
      if (pattern == nullptr && is_defined_format(*format))
        fail_at("format", "'" + *format + "' is not supported");
      if (pattern != nullptr) product.add(pattern_part(parse_regex(pattern, false, budget), budget));
    }
    if (const Json* list = base->find(kNotEnum)) {
      std::vector<std::string> texts;
      budget.charge(8 * list->size());
      for (const Json& one : list->as_array()) {
        if (one.is_string()) texts.push_back(one.as_string());
      }
      std::sort(texts.begin(), texts.end());
      texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
      if (!texts.empty()) product.add(negated_part(names_part(texts, budget)));
    }
  }
  const std::uint32_t min = min_of(part, "minLength");
  const std::uint32_t max = max_of(part, "maxLength");
  if (min > 0 || max != kUnbounded) product.add(length_part(min, max));
  return !product.empty();
}

// -- negation: schemas for the values that a schema rejects, one alternative for each way to violate a
// keyword

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

// Returns whether the keyword does not restrict values.
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
    }  // other formats are annotations, which accept everything
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
      if (any.size() == 0) return;  // one of them always accepts
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

// Negates oneOf: no option accepts, or two do.
void SchemaParts::negate_one_of(const Json& options, std::vector<Schema>& found) {
  constexpr std::size_t kMaxOptions = 12;
  if (!options.is_array() || options.size() > kMaxOptions) fail_at("not", "'oneOf' has too many options");
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

// Negates rules for undeclared members, if the possible member names are known: one of them is present with
// an invalid value.
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

// -- disjointness: true if two alternatives provably have no common value; false if that is not known

namespace {

constexpr std::size_t kMaxAlternativeDepth = 3;

struct NumberRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_strict = false;
  bool high_strict = false;
};

NumberRange range_of(const Alternative& part) {
  NumberRange range;
  const auto raise = [&](double low, bool strict) {
    if (low > range.low || (low == range.low && strict)) range.low = low, range.low_strict = strict;
  };
  const auto lower = [&](double high, bool strict) {
    if (high < range.high || (high == range.high && strict)) range.high = high, range.high_strict = strict;
  };
  for (const Schema base : part.bases) {
    const auto number = [&](const char* word) -> const Json* {
      const Json* found = base->find(word);
      return found != nullptr && found->is_number() ? found : nullptr;
    };
    const auto flag = [&](const char* word) {
      const Json* found = base->find(word);
      return found != nullptr && found->is_bool() && found->as_bool();
    };
    if (const Json* low = number("minimum")) raise(low->as_double(), flag("exclusiveMinimum"));
    if (const Json* high = number("maximum")) lower(high->as_double(), flag("exclusiveMaximum"));
    if (const Json* low = number("exclusiveMinimum")) raise(low->as_double(), true);
    if (const Json* high = number("exclusiveMaximum")) lower(high->as_double(), true);
  }
  return range;
}

Alternative both(const Alternative& a, const Alternative& b) {
  Alternative all = a;
  all.bases.insert(all.bases.end(), b.bases.begin(), b.bases.end());
  all.types &= b.types;
  return all;
}

}  // namespace

bool SchemaParts::disjoint(const std::vector<Alternative>& a, const std::vector<Alternative>& b,
                           std::size_t depth) {
  const WorkBudget::Level level(source_.budget());
  return std::all_of(a.begin(), a.end(), [&](const Alternative& one) {
    return std::all_of(b.begin(), b.end(),
                       [&](const Alternative& other) { return disjoint(one, other, depth); });
  });
}

bool SchemaParts::disjoint(const Alternative& a, const Alternative& b, std::size_t depth) {
  const std::uint32_t types = a.types & b.types;
  source_.budget().charge(1 + (types == 0 ? 0 : 8 * (a.bases.size() + b.bases.size())));
  if (types == 0) return true;
  const Alternative together = both(a, b);
  bool has = false;
  if (constants(together, has).empty() && has) return true;
  if (has) return false;
  if ((types & (kNullType | kBoolType)) != 0) return false;
  if ((types & (kIntegerType | kFractionType)) != 0 && !disjoint_numbers(a, b)) return false;
  if ((types & kStringType) != 0) {
    CharProduct product(source_.budget());
    if (!add_string_parts(together, product) || !product.build().empty()) return false;
  }
  if ((types & kObjectType) != 0 && !disjoint_objects(a, b, depth)) return false;
  return (types & kArrayType) == 0 || disjoint_arrays(a, b, depth);
}

bool SchemaParts::disjoint_numbers(const Alternative& a, const Alternative& b) const {
  const NumberRange range = range_of(both(a, b));
  return range.low > range.high || (range.low == range.high && (range.low_strict || range.high_strict));
}

// Some required property has no value that both accept.
bool SchemaParts::disjoint_objects(const Alternative& a, const Alternative& b, std::size_t depth) {
  if (depth >= kMaxAlternativeDepth) return false;
  const std::vector<std::string> names = required(both(a, b));
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    SchemaSet set = of_property(a, name);
    const SchemaSet other = of_property(b, name);
    const std::vector<Alternative> of_a = loose_alternatives(set);
    const std::vector<Alternative> of_b = loose_alternatives(other);
    return of_a.empty() || of_b.empty() || disjoint(of_a, of_b, depth + 1);
  });
}

bool SchemaParts::disjoint_arrays(const Alternative& a, const Alternative& b, std::size_t depth) {
  const Alternative together = both(a, b);
  const std::uint32_t min = min_of(together, "minItems");
  if (min > max_of(together, "maxItems")) return true;
  if (min == 0 || depth >= kMaxAlternativeDepth) return false;
  return disjoint(loose_alternatives(of_item(a, 0)), loose_alternatives(of_item(b, 0)), depth + 1);
}

bool SchemaParts::only_empty_lists_in_common(const std::vector<Alternative>& a,
                                             const std::vector<Alternative>& b) {
  const Schema not_empty = source_.make(Json{{"minItems", 1}});
  source_.budget().charge(8 * a.size());
  std::vector<Alternative> longer = a;
  for (Alternative& one : longer) one.bases.push_back(not_empty);
  return disjoint(longer, b, 0);
}

}  // namespace reprise::protocol::grammar
