#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "protocol/grammar/json_schema.h"
#include "protocol/grammar/regex.h"

namespace reprise::protocol::grammar {
namespace {

std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      plain += static_cast<char>(std::strtol(std::string(text.substr(i + 1, 2)).c_str(), nullptr, 16));
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::string pointer_part(std::string_view part) {
  std::string plain;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '~' && i + 1 < part.size()) {
      plain += part[++i] == '1' ? '/' : '~';
    } else {
      plain += part[i];
    }
  }
  return plain;
}

// Returns whether the count is within the bounds of two keywords.
bool within(const Json& schema, const char* min, double count, const char* max) {
  const auto bound = [&](const char* keyword) -> const Json* {
    const Json* found = schema.find(keyword);
    if (found != nullptr && !found->is_number()) fail_at(keyword, "must be a number");
    return found;
  };
  if (const Json* low = bound(min); low != nullptr && count < low->as_double()) return false;
  const Json* high = bound(max);
  return high == nullptr || count <= high->as_double();
}

}  // namespace

void fail_at(std::string_view keyword, const std::string& what) {
  throw GrammarError(std::string(keyword) + ": " + what);
}

const Json::Array& list_at(std::string_view keyword, const Json& value) {
  if (!value.is_array()) fail_at(keyword, "must be a list");
  return value.as_array();
}

const Json::Object& object_at(std::string_view keyword, const Json& value) {
  if (!value.is_object()) fail_at(keyword, "must be an object");
  return value.as_object();
}

std::size_t bytes_of(const Json& value, WorkBudget& budget) {
  const WorkBudget::Level level(budget);
  std::size_t bytes = sizeof(Json::Member);
  if (value.is_string()) bytes += value.as_string().size();
  budget.charge(2 + bytes / 256);
  if (value.is_array()) {
    for (const Json& item : value.as_array()) bytes += bytes_of(item, budget);
  } else if (value.is_object()) {
    for (const Json::Member& member : value.as_object())
      bytes += member.key.size() + bytes_of(member.value, budget);
  }
  return bytes;
}

SchemaSource::SchemaSource(const Json& document, WorkBudget& budget) : document_(document), budget_(budget) {
  if (const std::string* draft = document.find_string("$schema")) {
    for (const char* old : {"draft-03", "draft-04", "draft-06", "draft-07"}) {
      if (draft->find(old) != std::string::npos) ref_stands_alone_ = true;
    }
  }
  find_ids(document);
}

void SchemaSource::find_ids(const Json& value) {
  const WorkBudget::Level level(budget_);
  budget_.charge(value.size());
  if (value.is_array()) {
    for (const Json& item : value.as_array()) find_ids(item);
  } else if (value.is_object()) {
    for (const char* name : {"$id", "id"}) {
      if (const std::string* id = value.find_string(name)) ids_.try_emplace(*id, &value);
    }
    for (const char* name : {"$anchor", "$dynamicAnchor"}) {
      if (const std::string* anchor = value.find_string(name)) ids_.try_emplace("#" + *anchor, &value);
    }
    for (const Json::Member& member : value.as_object()) find_ids(member.value);
  }
}

Schema SchemaSource::make(Json schema) {
  budget_.take(bytes_of(schema, budget_));
  return &made_.emplace_back(std::move(schema));
}

Json SchemaSource::copy(const Json& value) {
  budget_.take(bytes_of(value, budget_));
  return value;
}

const Json* SchemaSource::member(const Json& object, std::string_view key) {
  constexpr std::size_t kFew = 16;
  budget_.charge(1 + key.size() / 64);
  if (object.size() <= kFew || !object.is_object()) return object.find(key);
  auto& index = members_[&object];
  if (index.empty()) {
    budget_.take(object.size() * 64);
    for (const Json::Member& member : object.as_object()) index.emplace(member.key, &member.value);
  }
  const auto found = index.find(key);
  return found == index.end() ? nullptr : found->second;
}

const Json* SchemaSource::at_pointer(const Json& document, std::string_view pointer) {
  const Json* at = &document;
  while (!pointer.empty() && at != nullptr) {
    if (pointer.front() != '/') return nullptr;
    pointer.remove_prefix(1);
    const std::size_t end = std::min(pointer.find('/'), pointer.size());
    const std::string part = pointer_part(pointer.substr(0, end));
    pointer.remove_prefix(end);
    if (at->is_array()) {
      const std::size_t index = std::strtoul(part.c_str(), nullptr, 10);
      at = index < at->size() ? &at->as_array()[index] : nullptr;
    } else {
      at = member(*at, part);
    }
  }
  return at;
}

Schema SchemaSource::resolve(const std::string& reference) {
  const auto usable = [&](const Json* found) {
    if (found == nullptr || !(found->is_bool() || found->is_object())) {
      fail_at("$ref", "'" + reference + "' leads to no schema of this document, and nothing is fetched");
    }
    return found;
  };
  budget_.charge(4 + reference.size() / 16);
  if (const auto found = ids_.find(reference); found != ids_.end()) return found->second;
  const auto [known, is_new] = resolved_.try_emplace(reference, nullptr);
  if (!is_new && known->second != nullptr) return known->second;
  budget_.take(96 + reference.size());
  const std::size_t hash = std::min(reference.find('#'), reference.size());
  const std::string base = reference.substr(0, hash);
  const Json* from = &document_;
  if (!base.empty()) {
    const auto found = ids_.find(base);
    const auto with_hash = ids_.find(base + "#");
    from = found != ids_.end() ? found->second : with_hash != ids_.end() ? with_hash->second : nullptr;
    if (from == nullptr) return usable(nullptr);
  }
  const std::string pointer = hash < reference.size() ? unescaped(reference.substr(hash + 1)) : "";
  return known->second = usable(at_pointer(*from, pointer));
}

// -- validation of values

bool SchemaSource::same_value(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.as_double() == b.as_double();
  if (a.kind() != b.kind()) return false;
  budget_.charge(1 + a.size());
  if (a.is_array()) {
    return std::equal(a.as_array().begin(), a.as_array().end(), b.as_array().begin(), b.as_array().end(),
                      [this](const Json& x, const Json& y) { return same_value(x, y); });
  }
  if (!a.is_object()) return a == b;
  return a.size() == b.size() &&
         std::all_of(a.as_object().begin(), a.as_object().end(), [&](const auto& one) {
           budget_.charge(b.size());
           const Json* other = b.find(one.key);
           return other != nullptr && same_value(one.value, *other);
         });
}

bool has_type(const Json& types, const Json& value) {
  if (types.is_array()) {
    return std::any_of(types.as_array().begin(), types.as_array().end(), [&](const Json& type) {
      if (type.is_array()) fail_at("type", "must be a name or a list of names");
      return has_type(type, value);
    });
  }
  if (!types.is_string()) fail_at("type", "must be a name or a list of names");
  const std::string& type = types.as_string();
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_bool();
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  const auto is_whole = [&] {
    return value.is_int() || (value.is_double() && value.as_double() == std::floor(value.as_double()));
  };
  if (type == "integer") return is_whole();
  if (type == kFraction) return value.is_number() && !is_whole();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  fail_at("type", "there is no type '" + type + "'");
}

bool SchemaSource::pattern_fits(const std::string& pattern, std::string_view text) {
  auto found = patterns_.find(pattern);
  if (found == patterns_.end()) {
    CharProduct product(budget_);
    product.add(pattern_part(parse_regex(pattern, true, budget_), budget_));
    found = patterns_.emplace(pattern, product.build()).first;
  }
  budget_.charge(1 + text.size());
  return found->second.accepts(text);
}

bool SchemaSource::fits(Schema schema, const Json& value) {
  const WorkBudget::Level level(budget_);
  budget_.charge(8 + 4 * schema->size() + value.size());
  if (schema->is_bool()) return schema->as_bool();
  if (!schema->is_object()) throw GrammarError("a schema must be an object, true or false");
  if (const std::string* reference = schema->find_string("$ref")) {
    if (!fits(resolve(*reference), value)) return false;
    if (ref_stands_alone_) return true;
  }
  if (const Json* types = schema->find("type"); types != nullptr) {
    budget_.charge(types->size());
    if (!has_type(*types, value)) return false;
  }
  const auto in = [&](const Json& list) {
    return std::any_of(list.as_array().begin(), list.as_array().end(), [&](const Json& one) {
      budget_.charge();
      return same_value(one, value);
    });
  };
  if (const Json* list = schema->find("enum"); list != nullptr && list->is_array() && !in(*list))
    return false;
  if (const Json* one = schema->find("const"); one != nullptr && !same_value(*one, value)) return false;
  if (const Json* list = schema->find(kNotEnum); list != nullptr && in(*list)) return false;
  if (value.is_number() && !fits_number(*schema, value)) return false;
  if (value.is_string() && !fits_string(*schema, value.as_string())) return false;
  if (value.is_array() && !fits_array(*schema, value.as_array())) return false;
  if (value.is_object() && !fits_object(*schema, value)) return false;
  return fits_others(*schema, value);
}

bool SchemaSource::fits_others(const Json& schema, const Json& value) {
  const auto count = [&](const char* keyword) -> std::ptrdiff_t {
    const auto& list = *schema.find_array(keyword);
    return std::count_if(list.begin(), list.end(), [&](const Json& one) { return fits(&one, value); });
  };
  if (const auto* list = schema.find_array("allOf")) {
    if (count("allOf") != static_cast<std::ptrdiff_t>(list->size())) return false;
  }
  if (schema.find_array("anyOf") != nullptr && count("anyOf") == 0) return false;
  if (schema.find_array("oneOf") != nullptr && count("oneOf") != 1) return false;
  if (const Json* no = schema.find("not"); no != nullptr && fits(no, value)) return false;
  if (const Json* condition = schema.find("if")) {
    const Json* follows = schema.find(fits(condition, value) ? "then" : "else");
    if (follows != nullptr && !fits(follows, value)) return false;
  }
  return true;
}

bool SchemaSource::fits_number(const Json& schema, const Json& value) const {
  const double number = value.as_double();
  const auto bound = [&](const char* keyword) -> const Json* {
    const Json* found = schema.find(keyword);
    return found != nullptr && found->is_number() ? found : nullptr;
  };
  const auto strict = [&](const char* keyword) {
    const Json* found = schema.find(keyword);
    return found != nullptr && found->is_bool() && found->as_bool();
  };
  if (const Json* low = bound("minimum")) {
    if (number < low->as_double() || (strict("exclusiveMinimum") && number == low->as_double())) return false;
  }
  if (const Json* high = bound("maximum")) {
    if (number > high->as_double() || (strict("exclusiveMaximum") && number == high->as_double()))
      return false;
  }
  if (const Json* low = bound("exclusiveMinimum"); low != nullptr && number <= low->as_double()) return false;
  if (const Json* high = bound("exclusiveMaximum"); high != nullptr && number >= high->as_double())
    return false;
  if (const Json* step = bound("multipleOf")) {
    const double ratio = number / step->as_double();
    if (ratio != std::floor(ratio)) return false;
  }
  return true;
}

bool SchemaSource::fits_string(const Json& schema, const std::string& value) {
  const auto length = static_cast<double>(std::count_if(
      value.begin(), value.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  if (!within(schema, "minLength", length, "maxLength")) return false;
  if (const std::string* pattern = schema.find_string("pattern");
      pattern != nullptr && !pattern_fits(*pattern, value))
    return false;
  if (const std::string* pattern = schema.find_string(kNotPattern);
      pattern != nullptr && pattern_fits(*pattern, value))
    return false;
  if (const std::string* format = schema.find_string("format")) {
    const char* pattern = pattern_of_format(*format);
    if (pattern != nullptr && !pattern_fits("^(?:" + std::string(pattern) + ")$", value)) return false;
  }
  return true;
}

bool SchemaSource::fits_array(const Json& schema, const Json::Array& value) {
  const auto size = static_cast<double>(value.size());
  if (!within(schema, "minItems", size, "maxItems")) return false;
  const Json* items = schema.find("items");
  const Json* first = schema.find("prefixItems");
  const Json* rest = items;
  if (items != nullptr && items->is_array()) {
    first = items;
    rest = schema.find("additionalItems");
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Json* item =
        first != nullptr && i < list_at("prefixItems", *first).size() ? &first->as_array()[i] : rest;
    if (item != nullptr && !fits(item, value[i])) return false;
  }
  return true;
}

bool SchemaSource::fits_object(const Json& schema, const Json& value) {
  const auto size = static_cast<double>(value.size());
  if (!within(schema, "minProperties", size, "maxProperties")) return false;
  if (const auto* required = schema.find_array("required")) {
    for (const Json& name : *required) {
      budget_.charge(1 + value.size());
      if (name.is_string() && value.find(name.as_string()) == nullptr) return false;
    }
  }
  const Json* properties = schema.find_object("properties");
  const Json* patterns = schema.find_object("patternProperties");
  const Json* others = schema.find("additionalProperties");
  for (const Json::Member& member : value.as_object()) {
    bool named = false;
    const auto check = [&](Schema one) {
      named = true;
      return fits(one, member.value);
    };
    const Json* own = properties == nullptr ? nullptr : this->member(*properties, member.key);
    if (own != nullptr && !check(own)) return false;
    if (patterns != nullptr) {
      for (const Json::Member& pattern : patterns->as_object()) {
        if (pattern_fits(pattern.key, member.key) && !check(&pattern.value)) return false;
      }
    }
    if (!named && others != nullptr && !fits(others, member.value)) return false;
  }
  return true;
}

namespace {

// Valid dates, including leap years.
#define REPRISE_DATE                                                                                       \
  "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"    \
  "02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])" \
  "00)-02-29)"
#define REPRISE_TIME \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define REPRISE_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define REPRISE_BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define REPRISE_IPV4 REPRISE_BYTE "\\." REPRISE_BYTE "\\." REPRISE_BYTE "\\." REPRISE_BYTE
#define REPRISE_H16 "[0-9A-Fa-f]{1,4}"
#define REPRISE_IPV6                                                                                    \
  "(?:(?:" REPRISE_H16 ":){7}" REPRISE_H16 "|(?:" REPRISE_H16 ":){1,7}:|(?:" REPRISE_H16                \
  ":){1,6}:" REPRISE_H16 "|(?:" REPRISE_H16 ":){1,5}(?::" REPRISE_H16 "){1,2}|(?:" REPRISE_H16          \
  ":){1,4}(?::" REPRISE_H16 "){1,3}|(?:" REPRISE_H16 ":){1,3}(?::" REPRISE_H16 "){1,4}|(?:" REPRISE_H16 \
  ":){1,2}(?::" REPRISE_H16 "){1,5}|" REPRISE_H16 ":(?::" REPRISE_H16 "){1,6}|:(?:(?::" REPRISE_H16     \
  "){1,7}|:))"
#define REPRISE_URI_CHAR "(?:[A-Za-z0-9\\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})"
#define REPRISE_AUTHORITY                                                       \
  "(?:(?:[A-Za-z0-9\\-._~!$&'()*+,;=:]|%[0-9A-Fa-f]{2})*@)?(?:\\[" REPRISE_IPV6 \
  "\\]|(?:[A-Za-z0-9\\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})+)(?::[0-9]{1,5})?"
#define REPRISE_PATH "(?:/" REPRISE_URI_CHAR "*)*"
#define REPRISE_TAIL "(?:\\?(?:" REPRISE_URI_CHAR "|[/?])*)?(?:#(?:" REPRISE_URI_CHAR "|[/?])*)?"

constexpr auto kPatterns = std::to_array<std::pair<const char*, const char*>>({
    {"date", REPRISE_DATE},
    {"time", REPRISE_TIME},
    {"date-time", REPRISE_DATE "[Tt]" REPRISE_TIME},
    {"duration",
     "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:T(?:[0-9]+H(?:[0-9]+M(?:["
     "0-9]+S)"
     "?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?|T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))"},
    {"email", "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@" REPRISE_LABEL
              "(?:\\." REPRISE_LABEL ")+"},
    {"hostname", REPRISE_LABEL "(?:\\." REPRISE_LABEL ")*"},
    {"ipv4", REPRISE_IPV4},
    {"ipv6", REPRISE_IPV6},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
    {"uri", "(?:[Ff][Ii][Ll][Ee]:///(?:" REPRISE_URI_CHAR
            "|/)*|[A-Za-z][A-Za-z0-9+\\-.]*:(?://" REPRISE_AUTHORITY REPRISE_PATH "|/(?:" REPRISE_URI_CHAR
            "+" REPRISE_PATH ")?|" REPRISE_URI_CHAR "+" REPRISE_PATH "))" REPRISE_TAIL},
    {"uri-reference",
     "(?:[A-Za-z][A-Za-z0-9+\\-.]*:)?(?://" REPRISE_AUTHORITY REPRISE_PATH "|/(?:" REPRISE_URI_CHAR
     "+" REPRISE_PATH ")?|(?:[A-Za-z0-9\\-._~!$&'()*+,;=@]|%[0-9A-Fa-f]{2})+" REPRISE_PATH ")?" REPRISE_TAIL},
    {"json-pointer", "(?:/(?:[^~/]|~[01])*)*"},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)"},
});

// Formats that the specification defines and that are not supported.
constexpr auto kOther = std::to_array<const char*>(
    {"idn-email", "idn-hostname", "iri", "iri-reference", "uri-template", "regex"});

}  // namespace

const char* pattern_of_format(std::string_view format) {
  const auto found =
      std::find_if(kPatterns.begin(), kPatterns.end(), [&](const auto& row) { return format == row.first; });
  return found == kPatterns.end() ? nullptr : found->second;
}

bool is_defined_format(std::string_view format) {
  return pattern_of_format(format) != nullptr ||
         std::find(kOther.begin(), kOther.end(), format) != kOther.end();
}

}  // namespace reprise::protocol::grammar
