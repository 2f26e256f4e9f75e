#include "protocol/grammar/schema_source.h"

#include <algorithm>

#include "protocol/grammar/string_formats.h"

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

const Json* at_pointer(const Json& document, std::string_view pointer) {
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
      at = at->find(part);
    }
  }
  return at;
}

}  // namespace

void fail_at(std::string_view keyword, const std::string& what) {
  throw GrammarError(std::string(keyword) + ": " + what);
}

SchemaSource::SchemaSource(const Json& document, CompileBudget& budget)
    : document_(document), budget_(budget) {
  if (const std::string* draft = document.find_string("$schema")) {
    for (const char* old : {"draft-03", "draft-04", "draft-06", "draft-07"}) {
      if (draft->find(old) != std::string::npos) ref_stands_alone_ = true;
    }
  }
  find_ids(document, 0);
}

void SchemaSource::find_ids(const Json& value, std::size_t depth) {
  if (depth > budget_.limits().depth) throw GrammarError("the schema is nested too deeply");
  if (value.is_array()) {
    for (const Json& item : value.as_array()) find_ids(item, depth + 1);
  } else if (value.is_object()) {
    for (const char* name : {"$id", "id"}) {
      if (const std::string* id = value.find_string(name)) ids_.try_emplace(*id, &value);
    }
    for (const char* name : {"$anchor", "$dynamicAnchor"}) {
      if (const std::string* anchor = value.find_string(name)) ids_.try_emplace("#" + *anchor, &value);
    }
    for (const Json::Member& member : value.as_object()) find_ids(member.value, depth + 1);
  }
}

Schema SchemaSource::resolve(const std::string& reference) const {
  const auto usable = [&](const Json* found) {
    if (found == nullptr || !(found->is_bool() || found->is_object())) {
      fail_at("$ref", "'" + reference + "' leads to no schema of this document, and nothing is fetched");
    }
    return found;
  };
  if (const auto found = ids_.find(reference); found != ids_.end()) return found->second;
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
  return usable(at_pointer(*from, pointer));
}

// -- whether a value fits

bool same_value(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.as_double() == b.as_double();
  if (a.kind() != b.kind()) return false;
  if (a.is_array()) {
    return std::equal(a.as_array().begin(), a.as_array().end(), b.as_array().begin(), b.as_array().end(),
                      same_value);
  }
  if (!a.is_object()) return a == b;
  return a.size() == b.size() &&
         std::all_of(a.as_object().begin(), a.as_object().end(), [&](const auto& member) {
           const Json* other = b.find(member.key);
           return other != nullptr && same_value(member.value, *other);
         });
}

bool has_type(const Json& types, const Json& value) {
  if (types.is_array()) {
    return std::any_of(types.as_array().begin(), types.as_array().end(),
                       [&](const Json& type) { return has_type(type, value); });
  }
  if (!types.is_string()) fail_at("type", "must be a name or a list of names");
  const std::string& type = types.as_string();
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_bool();
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  const auto is_whole = [&] {
    return value.is_int() ||
           (value.is_double() &&
            value.as_double() == static_cast<double>(static_cast<std::int64_t>(value.as_double())));
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
    product.add(pattern_part(parse_regex(pattern, true, budget_.limits())));
    found = patterns_.emplace(pattern, product.build()).first;
  }
  return found->second.accepts(text);
}

bool SchemaSource::fits(Schema schema, const Json& value, std::size_t depth) {
  if (depth > 64) throw GrammarError("a constant of the schema is checked too deeply");
  if (schema->is_bool()) return schema->as_bool();
  if (!schema->is_object()) throw GrammarError("a schema must be an object, true or false");
  if (const std::string* reference = schema->find_string("$ref")) {
    if (!fits(resolve(*reference), value, depth + 1)) return false;
    if (ref_stands_alone_) return true;
  }
  if (const Json* types = schema->find("type"); types != nullptr && !has_type(*types, value)) return false;
  const auto in = [&](const Json& list) {
    return std::any_of(list.as_array().begin(), list.as_array().end(),
                       [&](const Json& one) { return same_value(one, value); });
  };
  if (const Json* list = schema->find("enum"); list != nullptr && list->is_array() && !in(*list))
    return false;
  if (const Json* one = schema->find("const"); one != nullptr && !same_value(*one, value)) return false;
  if (const Json* list = schema->find(kNotEnum); list != nullptr && in(*list)) return false;
  if (value.is_number() && !fits_number(*schema, value)) return false;
  if (value.is_string() && !fits_string(*schema, value.as_string())) return false;
  if (value.is_array() && !fits_array(*schema, value.as_array(), depth)) return false;
  if (value.is_object() && !fits_object(*schema, value, depth)) return false;
  return fits_others(*schema, value, depth);
}

bool SchemaSource::fits_others(const Json& schema, const Json& value, std::size_t depth) {
  const auto count = [&](const char* keyword) -> std::ptrdiff_t {
    const auto& list = *schema.find_array(keyword);
    return std::count_if(list.begin(), list.end(),
                         [&](const Json& one) { return fits(&one, value, depth + 1); });
  };
  if (const auto* list = schema.find_array("allOf")) {
    if (count("allOf") != static_cast<std::ptrdiff_t>(list->size())) return false;
  }
  if (schema.find_array("anyOf") != nullptr && count("anyOf") == 0) return false;
  if (schema.find_array("oneOf") != nullptr && count("oneOf") != 1) return false;
  if (const Json* no = schema.find("not"); no != nullptr && fits(no, value, depth + 1)) return false;
  if (const Json* condition = schema.find("if")) {
    const Json* follows = schema.find(fits(condition, value, depth + 1) ? "then" : "else");
    if (follows != nullptr && !fits(follows, value, depth + 1)) return false;
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
    if (ratio != static_cast<double>(static_cast<std::int64_t>(ratio))) return false;
  }
  return true;
}

bool SchemaSource::fits_string(const Json& schema, const std::string& value) {
  const auto length = static_cast<double>(std::count_if(
      value.begin(), value.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  if (const Json* low = schema.find("minLength"); low != nullptr && length < low->as_double()) return false;
  if (const Json* high = schema.find("maxLength"); high != nullptr && length > high->as_double())
    return false;
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

bool SchemaSource::fits_array(const Json& schema, const Json::Array& value, std::size_t depth) {
  const auto size = static_cast<double>(value.size());
  if (const Json* low = schema.find("minItems"); low != nullptr && size < low->as_double()) return false;
  if (const Json* high = schema.find("maxItems"); high != nullptr && size > high->as_double()) return false;
  const Json* items = schema.find("items");
  const Json* first = schema.find("prefixItems");
  const Json* rest = items;
  if (items != nullptr && items->is_array()) {
    first = items;
    rest = schema.find("additionalItems");
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Json* item = first != nullptr && i < first->size() ? &first->as_array()[i] : rest;
    if (item != nullptr && !fits(item, value[i], depth + 1)) return false;
  }
  return true;
}

bool SchemaSource::fits_object(const Json& schema, const Json& value, std::size_t depth) {
  const auto size = static_cast<double>(value.size());
  if (const Json* low = schema.find("minProperties"); low != nullptr && size < low->as_double()) return false;
  if (const Json* high = schema.find("maxProperties"); high != nullptr && size > high->as_double())
    return false;
  if (const auto* required = schema.find_array("required")) {
    for (const Json& name : *required) {
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
      return fits(one, member.value, depth + 1);
    };
    const Json* own = properties == nullptr ? nullptr : properties->find(member.key);
    if (own != nullptr && !check(own)) return false;
    if (patterns != nullptr) {
      for (const Json::Member& pattern : patterns->as_object()) {
        if (pattern_fits(pattern.key, member.key) && !check(&pattern.value)) return false;
      }
    }
    if (!named && others != nullptr && !fits(others, member.value, depth + 1)) return false;
  }
  return true;
}

}  // namespace reprise::protocol::grammar
