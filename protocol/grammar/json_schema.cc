#include "protocol/grammar/json_schema.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <utility>

#include "protocol/grammar/char_dfa.h"
#include "protocol/grammar/regex.h"

namespace reprise::protocol::grammar {
namespace {

// 40 digits and a two-digit exponent suffice, and every reader can represent the number. Multiples, whose
// automata are large, may have any number of digits.
constexpr const char* kIntegerPattern = "-?(?:0|[1-9][0-9]{0,39})";
constexpr const char* kDecimalPattern = "-?(?:0|[1-9][0-9]{0,39})(?:\\.[0-9]+)?";
constexpr const char* kNumberPattern = "-?(?:0|[1-9][0-9]{0,39})(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?";
constexpr const char* kFractionPattern = "-?(?:0|[1-9][0-9]{0,39})\\.[0-9]*[1-9][0-9]*";
constexpr const char* kLongIntegerPattern = "-?(?:0|[1-9][0-9]*)";
constexpr const char* kLongDecimalPattern = "-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?";

constexpr std::size_t kMaxFirstItems = 4096;

// Caches the node of each set of schemas, so that recursive schemas refer back to the same node.
class SchemaCompiler {
 public:
  SchemaCompiler(ProgramBuilder& builder, const Json& document, OtherKeys other_keys)
      : builder_(builder), source_(document, builder.budget()), parts_(source_), other_keys_(other_keys) {}

  NodeId compile() {
    const NodeId start = value({source_.root()});
    while (!waiting_.empty()) {
      const auto [set, list] = std::move(waiting_.front());
      waiting_.pop_front();
      std::vector<NodeId> choices;
      for (const Alternative& part : parts_.alternatives(set)) add_choices(part, choices);
      builder_.program().lists[list] = std::move(choices);
    }
    return start;
  }

 private:
  NodeId value(SchemaSet set) {
    builder_.budget().charge(4 + 2 * set.size());
    std::erase_if(set, [](Schema schema) { return schema->is_bool() && schema->as_bool(); });
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
    const auto found = values_.find(set);
    if (found != values_.end()) return found->second;
    const auto list = static_cast<std::uint32_t>(builder_.program().lists.size());
    builder_.program().lists.emplace_back();
    const NodeId node = builder_.add(Op::kSplit, 0, list);
    builder_.budget().take(160 + 2 * set.size() * sizeof(Schema));
    values_.emplace(set, node);
    if (values_.size() > builder_.budget().limits().schemas) {
      throw GrammarError("its combinations of schemas are too many: more than " +
                         std::to_string(builder_.budget().limits().schemas));
    }
    waiting_.emplace_back(std::move(set), list);
    return node;
  }

  void add_choices(const Alternative& part, std::vector<NodeId>& choices) {
    for (const Schema base : part.bases) builder_.budget().charge(8 + 32 * base->size());
    bool has_constants = false;
    const std::vector<Json> constants = parts_.constants(part, has_constants);
    if (has_constants) return add_constants(constants, choices);
    const NodeId end = builder_.end();
    const auto allows = [&](const Json& value) {
      return std::none_of(part.bases.begin(), part.bases.end(), [&](Schema base) {
        const Json* list = base->find(kNotEnum);
        return list != nullptr &&
               std::any_of(list->as_array().begin(), list->as_array().end(),
                           [&](const Json& one) { return source_.same_value(one, value); });
      });
    };
    if ((part.types & kNullType) != 0 && allows(nullptr)) choices.push_back(builder_.literal("null", end));
    if ((part.types & kBoolType) != 0) {
      for (const bool truth : {true, false}) {
        if (allows(truth)) choices.push_back(builder_.literal(truth ? "true" : "false", end));
      }
    }
    if ((part.types & (kIntegerType | kFractionType)) != 0) choices.push_back(number(part));
    if ((part.types & kStringType) != 0) choices.push_back(string(part));
    if ((part.types & kArrayType) != 0) choices.push_back(array(part));
    if ((part.types & kObjectType) != 0) choices.push_back(object(part));
  }

  void add_constants(const std::vector<Json>& constants, std::vector<NodeId>& choices) {
    std::vector<std::string> texts;
    for (const Json& value : constants) {
      if (!value.is_string()) {
        choices.push_back(constant(value));
      } else {
        texts.push_back(value.as_string());
      }
    }
    std::sort(texts.begin(), texts.end());
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    if (!texts.empty()) choices.push_back(one_of(texts));
  }

  NodeId one_of(const std::vector<std::string>& texts) {
    CharProduct product(builder_.budget());
    product.add(names_part(texts, builder_.budget()));
    return builder_.string({.dfa = builder_.add_dfa(product.build())}, builder_.end());
  }

  NodeId constant(const Json& value) {
    const WorkBudget::Level level(builder_.budget());
    if (value.is_string()) return one_of({value.as_string()});
    if (value.is_array()) {
      ArraySpec spec{.min = static_cast<std::uint32_t>(value.size()),
                     .max = static_cast<std::uint32_t>(value.size())};
      for (const Json& item : value.as_array()) spec.first.push_back(constant(item));
      return builder_.array(std::move(spec), builder_.end());
    }
    if (value.is_double() && std::abs(value.as_double()) < 1e15 &&
        value.as_double() == std::floor(value.as_double())) {
      const auto whole = std::to_string(static_cast<std::int64_t>(value.as_double()));  // shortest spelling
      return builder_.split(
          {builder_.literal(value.dump(), builder_.end()), builder_.literal(whole, builder_.end())});
    }
    if (!value.is_object()) return builder_.literal(value.dump(), builder_.end());
    std::map<std::string, NodeId> members;
    for (const Json::Member& member : value.as_object()) members[member.key] = constant(member.value);
    ObjectSpec spec;
    std::vector<std::string> names;
    for (const auto& [name, node] : members) {
      names.push_back(name);
      spec.properties.push_back({.value = node, .required = true});
    }
    if (!names.empty()) {
      CharProduct keys(builder_.budget());
      keys.add(names_part(names, builder_.budget()));
      spec.keys = builder_.add_dfa(keys.build([](std::span<const Verdict> v) { return v[0]; }));
    }
    return builder_.object(std::move(spec), builder_.end());
  }

  NodeId string(const Alternative& part) {
    const bool plain = std::none_of(part.bases.begin(), part.bases.end(), [](Schema base) {
      return base->find("pattern") != nullptr || base->find("format") != nullptr ||
             base->find(kNotEnum) != nullptr || base->find(kNotPattern) != nullptr;
    });
    if (!plain) {
      CharProduct product(builder_.budget());
      if (parts_.add_string_parts(part, product)) {
        CharDfa dfa = product.build();
        if (dfa.empty()) return builder_.add(Op::kFail, 0, 0);
        return builder_.string({.dfa = builder_.add_dfa(std::move(dfa))}, builder_.end());
      }
    }
    const JsonStringSpec spec{.min = parts_.min_of(part, "minLength"),
                              .max = parts_.max_of(part, "maxLength")};
    if (spec.min > spec.max) return builder_.add(Op::kFail, 0, 0);
    if (spec.min > builder_.budget().limits().repetitions) fail_at("minLength", "is too large");
    return builder_.string(spec, builder_.end());
  }

  NodeId number(const Alternative& part) {
    struct Bound {
      bool low;
      bool strict;
      bool excludes = false;  // excludes exactly this number
    };
    CharProduct product(builder_.budget());
    std::vector<Bound> bounds;
    bool exact = false;
    const bool integer = (part.types & kFractionType) == 0;
    const auto decimal = [](const char* word, const Json& value) {
      if (!value.is_number()) fail_at(word, "must be a number");
      const auto found = Decimal::of(value);
      if (!found) fail_at(word, "is too large or too small a number");
      return *found;
    };
    std::vector<std::unique_ptr<CharPart>> checks;
    const auto bound = [&](const char* word, const Json& value, bool low, bool strict) {
      checks.push_back(compared_to(decimal(word, value)));
      bounds.push_back({.low = low, .strict = strict});
    };
    for (const Schema base : part.bases) {
      const auto flag = [&](const char* word) {
        const Json* found = base->find(word);
        return found != nullptr && found->is_bool() && found->as_bool();
      };
      if (const Json* low = base->find("minimum")) bound("minimum", *low, true, flag("exclusiveMinimum"));
      if (const Json* high = base->find("maximum")) bound("maximum", *high, false, flag("exclusiveMaximum"));
      const Json* low = base->find("exclusiveMinimum");
      if (low != nullptr && !low->is_bool()) bound("exclusiveMinimum", *low, true, true);
      const Json* high = base->find("exclusiveMaximum");
      if (high != nullptr && !high->is_bool()) bound("exclusiveMaximum", *high, false, true);
      if (const Json* list = base->find(kNotEnum)) {
        for (const Json& one : list->as_array()) {
          if (!one.is_number()) continue;
          checks.push_back(compared_to(decimal("not", one)));
          builder_.budget().take(256);
          bounds.push_back({.low = false, .strict = false, .excludes = true});
        }
      }
      if (const Json* step = base->find("multipleOf")) {
        exact = true;
        multiples_.push_back(decimal("multipleOf", *step));
      }
    }
    const char* pattern = integer ? kIntegerPattern : bounds.empty() ? kNumberPattern : kDecimalPattern;
    if (exact) pattern = integer ? kLongIntegerPattern : kLongDecimalPattern;
    if ((part.types & kIntegerType) == 0) pattern = kFractionPattern;
    product.add(pattern_part(parse_regex(pattern, false, builder_.budget()), builder_.budget()));
    for (auto& check : checks) product.add(std::move(check));
    for (const Decimal& step : std::exchange(multiples_, {})) product.add(multiple_of(step));
    CharDfa dfa = product.build([&](std::span<const Verdict> verdicts) -> std::uint32_t {
      for (std::size_t i = 0; i < bounds.size(); ++i) {
        const Verdict order = verdicts[1 + i];
        if (bounds[i].excludes) {
          if (order == 2) return 0;
          continue;
        }
        if (order == 2 ? bounds[i].strict : (order == 3) != bounds[i].low) return 0;
      }
      return std::all_of(verdicts.begin(), verdicts.end(), [](Verdict v) { return v != 0; });
    });
    return builder_.dfa(std::move(dfa), builder_.end());
  }

  NodeId array(const Alternative& part) {
    ArraySpec spec{.min = parts_.min_of(part, "minItems"), .max = parts_.max_of(part, "maxItems")};
    for (const Schema base : part.bases) {
      const Json* unique = base->find("uniqueItems");
      if (unique != nullptr && unique->is_bool() && unique->as_bool() && spec.max > 1) {
        fail_at("uniqueItems", "is not supported");
      }
    }
    if (spec.min > builder_.budget().limits().repetitions) fail_at("minItems", "is too large");
    const std::size_t first = parts_.first_items(part);
    if (first > kMaxFirstItems) fail_at("items", "has too many schemas");
    builder_.budget().take(first * sizeof(NodeId));
    for (std::size_t i = 0; i < first; ++i) spec.first.push_back(value(parts_.of_item(part, i)));
    spec.rest = value(parts_.of_item(part, first));
    return builder_.array(std::move(spec), builder_.end());
  }

  NodeId object(const Alternative& part);
  bool is_closed(const Alternative& part, std::size_t names, std::uint32_t min) const;
  std::vector<std::string> names_of(const Alternative& part) const;
  void add_needs(const Alternative& part, const std::vector<std::string>& names, ObjectSpec& spec) const;

  ProgramBuilder& builder_;
  SchemaSource source_;
  SchemaParts parts_;
  const OtherKeys other_keys_;
  std::map<SchemaSet, NodeId> values_;
  std::deque<std::pair<SchemaSet, std::uint32_t>> waiting_;
  std::vector<Decimal> multiples_;
};

// Returns all names that the schemas mention, sorted.
std::vector<std::string> SchemaCompiler::names_of(const Alternative& part) const {
  std::vector<std::string> names;
  const auto add_list = [&](const Json& list, const char* keyword) {
    if (!list.is_array()) return;
    builder_.budget().charge(8 * list.size());
    for (const Json& name : list.as_array()) {
      if (!name.is_string()) fail_at(keyword, "must be a list of names");
      names.push_back(name.as_string());
    }
  };
  for (const Schema base : part.bases) {
    if (const Json* properties = base->find("properties")) {
      if (!properties->is_object()) fail_at("properties", "must be an object");
      builder_.budget().charge(8 * properties->size());
      for (const Json::Member& property : properties->as_object()) names.push_back(property.key);
    }
    if (const Json* required = base->find("required")) add_list(*required, "required");
    for (const char* keyword : {"dependentRequired", "dependencies"}) {
      const Json* needs = base->find_object(keyword);
      if (needs == nullptr) continue;
      for (const Json::Member& need : needs->as_object()) {
        if (!need.value.is_array()) continue;
        names.push_back(need.key);
        add_list(need.value, keyword);
      }
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void SchemaCompiler::add_needs(const Alternative& part, const std::vector<std::string>& names,
                               ObjectSpec& spec) const {
  WorkBudget& budget = builder_.budget();
  const auto index_of = [&](const std::string& name) {
    return static_cast<std::uint32_t>(std::lower_bound(names.begin(), names.end(), name) - names.begin());
  };
  for (const Schema base : part.bases) {
    for (const char* keyword : {"dependentRequired", "dependencies"}) {
      const Json* needs = base->find_object(keyword);
      if (needs == nullptr) continue;
      for (const Json::Member& need : needs->as_object()) {
        if (!need.value.is_array()) continue;
        ObjectSpec::Need one{.property = index_of(need.key)};
        budget.take(64 + 8 * need.value.size());
        for (const Json& name : need.value.as_array()) one.needs.push_back(index_of(name.as_string()));
        spec.needs.push_back(std::move(one));
      }
    }
  }
}

/// Returns whether unmentioned keys are excluded although no schema says so.
bool SchemaCompiler::is_closed(const Alternative& part, std::size_t names, std::uint32_t min) const {
  if (other_keys_ != OtherKeys::kIfDeclared || names < min) return false;
  bool declares = false;
  for (const Schema base : part.bases) {
    if (base->find("additionalProperties") != nullptr) return false;
    const Json* properties = base->find_object("properties");
    if (properties == nullptr) continue;
    builder_.budget().charge(properties->size());
    declares = declares || std::any_of(properties->as_object().begin(), properties->as_object().end(),
                                       // properties excluded by `not` do not count as declared
                                       [](const Json::Member& property) {
                                         return !property.value.is_bool() || property.value.as_bool();
                                       });
  }
  return declares;
}

NodeId SchemaCompiler::object(const Alternative& part) {
  const std::vector<std::string> names = names_of(part);
  ObjectSpec spec{.min = parts_.min_of(part, "minProperties"), .max = parts_.max_of(part, "maxProperties")};
  const std::vector<std::string> required = parts_.required(part);
  builder_.budget().take(names.size() * (sizeof(ObjectSpec::Property) + 64));
  for (const std::string& name : names) {
    spec.properties.push_back({.value = value(parts_.of_property(part, name)),
                               .required = std::binary_search(required.begin(), required.end(), name)});
  }
  add_needs(part, names, spec);

  // Undeclared keys: the patterns that they match determine the schemas of their values.
  CharProduct keys(builder_.budget());
  keys.add(names_part(names, builder_.budget()), false);
  struct Pattern {
    Schema base;
    Schema value;
  };
  std::vector<Pattern> patterns;
  for (const Schema base : part.bases) {
    const Json* list = base->find("patternProperties");
    if (list == nullptr) continue;
    if (!list->is_object()) fail_at("patternProperties", "must be an object");
    for (const Json::Member& pattern : list->as_object()) {
      keys.add(pattern_part(parse_regex(pattern.key, true, builder_.budget()), builder_.budget()), false);
      patterns.push_back({base, &pattern.value});
    }
  }
  for (const Schema base : part.bases) {
    const Json* rule = base->find("propertyNames");
    if (rule == nullptr) continue;
    const std::vector<Alternative> rules = parts_.alternatives({rule});
    if (rules.size() != 1) fail_at("propertyNames", "with alternatives is not supported");
    bool has = false;
    std::vector<std::string> texts;
    for (const Json& one : parts_.constants(rules[0], has)) {
      if (one.is_string()) texts.push_back(one.as_string());
    }
    std::sort(texts.begin(), texts.end());
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    if (has) keys.add(names_part(texts, builder_.budget()));
    // a type other than string allows no name
    if ((rules[0].types & kStringType) == 0) keys.add(length_part(1, 0));
    static_cast<void>(parts_.add_string_parts(rules[0], keys));
  }
  const bool closed = is_closed(part, names.size(), spec.min);
  // group number by matched patterns; kNowhere: no value is valid
  std::map<std::vector<bool>, std::uint32_t> groups;
  CharDfa dfa = keys.build([&](std::span<const Verdict> verdicts) -> std::uint32_t {
    if (verdicts[0] != 0) return verdicts[0];
    std::vector<bool> matched;
    for (std::size_t i = 0; i < patterns.size(); ++i) matched.push_back(verdicts[1 + i] != 0);
    if (closed && std::find(matched.begin(), matched.end(), true) == matched.end()) return 0;
    const auto [group, is_new] = groups.try_emplace(matched, kNowhere);
    builder_.budget().charge(patterns.size());
    if (is_new) {
      builder_.budget().take(128 + patterns.size() / 8);
      builder_.budget().charge(part.bases.size() * (patterns.size() + 1));
      SchemaSet set;
      for (const Schema base : part.bases) {
        bool named = false;
        for (std::size_t i = 0; i < patterns.size(); ++i) {
          if (patterns[i].base != base || !matched[i]) continue;
          set.push_back(patterns[i].value);
          named = true;
        }
        if (const Json* others = named ? nullptr : base->find("additionalProperties")) set.push_back(others);
      }
      const bool never =
          std::any_of(set.begin(), set.end(), [](Schema s) { return s->is_bool() && !s->as_bool(); });
      if (!never) {
        group->second = static_cast<std::uint32_t>(spec.others.size());
        spec.others.push_back(value(std::move(set)));
      }
    }
    if (group->second == kNowhere) return 0;
    return static_cast<std::uint32_t>(names.size()) + 1 + group->second;
  });
  if (!dfa.empty()) spec.keys = builder_.add_dfa(std::move(dfa));
  if (spec.min > 1 && !spec.others.empty()) {
    fail_at("minProperties", "above 1 is not supported where names are free: they could be the same");
  }
  return builder_.object(std::move(spec), builder_.end());
}

}  // namespace

NodeId json_schema_value(ProgramBuilder& builder, const Json& schema, OtherKeys other_keys) {
  if (!schema.is_object() && !schema.is_bool())
    throw GrammarError("a schema must be an object, true or false");
  return SchemaCompiler(builder, schema, other_keys).compile();
}

NodeId any_json_object(ProgramBuilder& builder) {
  const Json schema = Json{{"type", "object"}};
  return json_schema_value(builder, schema);
}

}  // namespace reprise::protocol::grammar
