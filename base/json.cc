#include "base/json.h"

#include <simdjson.h>

#include <algorithm>
#include <optional>

#include "base/json_diagnosis.h"
#include "base/json_members.h"
#include "base/json_python.h"

namespace reprise {
namespace {

JsonError error_at(std::string_view text, std::size_t offset, std::string_view reason) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  std::size_t column = 1;
  for (const char c : before.substr(line_start)) column += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return {"invalid JSON at line " + std::to_string(line) + ", column " + std::to_string(column) + ": " +
              std::string(reason),
          offset};
}

// Copies simdjson's document, up to the limits. `words` stand where the text had what Python alone writes.
class Builder {
 public:
  Builder(const JsonLimits& limits, const JsonReading& reading, const std::vector<PythonJson::Word>& words)
      : values_left_(limits.values),
        members_left_(limits.members),
        depth_left_(limits.depth),
        unique_keys_(reading.unique_keys),
        word_(words.data()),
        words_end_(words.data() + words.size()) {}

  bool over_limit() const { return over_limit_; }
  /// Why this is no JSON after all; empty: it is.
  const std::string& fault() const { return fault_; }

  Json build(simdjson::dom::element element) {
    using simdjson::dom::element_type;
    if (!take_one(values_left_)) return {};
    switch (element.type()) {
      case element_type::BOOL:
        return bool(element.get_bool().value_unsafe());
      case element_type::INT64:
        return std::int64_t{element.get_int64().value_unsafe()};
      case element_type::UINT64:
        return std::uint64_t{element.get_uint64().value_unsafe()};
      case element_type::DOUBLE:
        return double{element.get_double().value_unsafe()};
      case element_type::STRING:
        if (const PythonJson::Word* word = take_string()) return word->value;
        return std::string_view(element.get_string().value_unsafe());
      case element_type::ARRAY:
        return build_array(element.get_array().value_unsafe());
      case element_type::OBJECT:
        return build_object(element.get_object().value_unsafe());
      default:
        return {};
    }
  }

 private:
  Json build_array(simdjson::dom::array array) {
    Json::Array items;
    if (!take_one(depth_left_)) return {};
    items.reserve(std::min(array.size(), values_left_));
    for (simdjson::dom::element item : array) {
      items.push_back(build(item));
      if (over_limit_) break;
    }
    ++depth_left_;
    return items;
  }

  Json build_object(simdjson::dom::object object) {
    Json::Object members;
    if (!take_one(depth_left_)) return {};
    members.reserve(std::min(object.size(), members_left_));
    for (const simdjson::dom::key_value_pair& member : object) {
      if (!take_one(members_left_)) break;
      if (take_string() != nullptr) return give_up("a key is not a string");
      Json& value = members.emplace_back(Json::Member{std::string(member.key), Json()}).value;
      value = build(member.value);
      if (over_limit_) break;
    }
    ++depth_left_;
    if (over_limit_) return {};
    if (!unique_keys_) {
      merge_same_keys(members);
    } else if (const std::string* key = repeated_key(members)) {
      return give_up("the key '" + *key + "' is there twice in one object");
    }
    return members;
  }

  /// Counts a string of the text; the word of Python's that it stands for, or null.
  const PythonJson::Word* take_string() {
    const std::size_t number = strings_++;
    return word_ != words_end_ && word_->string_number == number ? word_++ : nullptr;
  }

  Json give_up(std::string fault) {
    if (fault_.empty()) fault_ = std::move(fault);
    return {};
  }

  bool take_one(std::size_t& left) {
    if (left == 0) return !(over_limit_ = true);
    --left;
    return true;
  }

  std::size_t values_left_;
  std::size_t members_left_;
  std::size_t depth_left_;
  bool over_limit_ = false;
  const bool unique_keys_;
  std::string fault_;
  std::size_t strings_ = 0;       // seen so far, keys included
  const PythonJson::Word* word_;  // the next to meet
  const PythonJson::Word* const words_end_;
};

/// simdjson's parser with its memory, which costs more to make than a usual text takes to parse.
class DomParser {
 public:
  /// The element lives until the next text.
  simdjson::error_code parse(std::string_view text, std::size_t capacity, std::size_t depth,
                             simdjson::dom::element& root) {
    const simdjson::error_code error = parser_.allocate(capacity, depth);
    if (error != simdjson::SUCCESS) return error;
    padded_.reserve(capacity + simdjson::SIMDJSON_PADDING);
    padded_.assign(text);
    return parser_.parse(padded_.data(), padded_.size(), /*realloc_if_needed=*/false).get(root);
  }

 private:
  simdjson::dom::parser parser_;
  std::string padded_;
};

constexpr std::size_t kUsualText = 64u << 10;  // a thread keeps the memory for texts up to this size

class Dumper {
 public:
  Dumper(std::string& out, const JsonStyle& style) : out_(out), style_(style) {}

  void value(const Json& json, std::size_t level) {
    switch (json.kind()) {
      case Json::Kind::kNull:
        out_ += "null";
        break;
      case Json::Kind::kBool:
        out_ += json.as_bool() ? "true" : "false";
        break;
      case Json::Kind::kInt:
        append_integer(out_, json.as_int());
        break;
      case Json::Kind::kDouble:
        append_json_double(out_, json.as_double(), style_.python_numbers);
        break;
      case Json::Kind::kString:
        append_json_string(out_, json.as_string(), style_.ensure_ascii);
        break;
      case Json::Kind::kArray:
        array(json.as_array(), level);
        break;
      case Json::Kind::kObject:
        object(json.as_object(), level);
        break;
    }
  }

 private:
  void array(const Json::Array& items, std::size_t level) {
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      between(i, level + 1);
      value(items[i], level + 1);
    }
    if (!items.empty()) new_line(level);
    out_ += ']';
  }

  void object(const Json::Object& members, std::size_t level) {
    std::vector<const Json::Member*> order;
    for (const Json::Member& member : members) order.push_back(&member);
    if (style_.sort_keys) {  // UTF-8 sorts as its code points do
      std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->key < b->key; });
    }
    out_ += '{';
    for (std::size_t i = 0; i < order.size(); ++i) {
      between(i, level + 1);
      append_json_string(out_, order[i]->key, style_.ensure_ascii);
      out_ += style_.key_separator;
      value(order[i]->value, level + 1);
    }
    if (!order.empty()) new_line(level);
    out_ += '}';
  }

  void between(std::size_t i, std::size_t level) {
    if (i > 0) out_ += style_.item_separator;
    new_line(level);
  }

  void new_line(std::size_t level) {
    if (!style_.indent) return;
    out_ += '\n';
    for (std::size_t i = 0; i < level; ++i) out_ += *style_.indent;
  }

  std::string& out_;
  const JsonStyle& style_;
};

}  // namespace

Outcome<Json, JsonError> Json::parse(std::string_view text, const JsonLimits& limits,
                                     const JsonReading& reading) {
  if (text.size() > limits.bytes) {
    return JsonError{"the JSON text has " + std::to_string(text.size()) + " bytes; the limit is " +
                         std::to_string(limits.bytes),
                     limits.bytes};
  }
  const PythonJson python = reading.python ? rewrite_python_json(text) : PythonJson{};
  const std::string_view standard = reading.python ? std::string_view(python.text) : text;
  thread_local DomParser usual_parser;
  std::optional<DomParser> large_parser;
  const bool usual = standard.size() <= kUsualText;
  DomParser& parser = usual ? usual_parser : large_parser.emplace();
  simdjson::dom::element root;
  // simdjson counts levels otherwise: it may let one more pass, which the builder then refuses.
  const simdjson::error_code error =  // UTF-8 is checked as well
      parser.parse(standard, usual ? kUsualText : standard.size(), limits.depth + 1, root);
  Builder builder(limits, reading, python.words);
  Json json = error == simdjson::SUCCESS ? builder.build(root) : Json();
  if (error != simdjson::SUCCESS || builder.over_limit()) {
    JsonFault fault = diagnose_json(text, limits, reading);
    if (fault.reason.empty()) fault.reason = simdjson::error_message(error);
    return error_at(text, fault.offset, fault.reason);
  }
  if (!builder.fault().empty()) return JsonError{"invalid JSON: " + builder.fault(), 0};
  return json;
}

Json Json::object() {
  return Json(Object());
}

Json::Json(Object members) : value_(std::move(members)) {}

Json::Json(std::initializer_list<std::pair<std::string_view, Json>> members) : value_(Object()) {
  for (const auto& [key, value] : members) (*this)[key] = value;
}

const char* Json::kind_name() const {
  constexpr const char* kNames[] = {"null",     "a boolean", "an integer", "a number",
                                    "a string", "an array",  "an object"};
  return kNames[value_.index()];
}

double Json::as_double() const {
  return is_int() ? static_cast<double>(as_int()) : get<double>();
}

std::size_t Json::size() const {
  return is_array() ? as_array().size() : is_object() ? as_object().size() : 0;
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const Member& member : as_object()) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

Json* Json::find(std::string_view key) {
  return const_cast<Json*>(std::as_const(*this).find(key));
}

const std::string* Json::find_string(std::string_view key) const {
  const Json* found = find(key);
  return found != nullptr && found->is_string() ? &found->as_string() : nullptr;
}

const Json::Array* Json::find_array(std::string_view key) const {
  const Json* found = find(key);
  return found != nullptr && found->is_array() ? &found->as_array() : nullptr;
}

const Json* Json::find_object(std::string_view key) const {
  const Json* found = find(key);
  return found != nullptr && found->is_object() ? found : nullptr;
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  if (Json* found = find(key)) return *found;
  Object& members = get<Object>();
  members.push_back({std::string(key), Json()});
  return members.back().value;
}

Json& Json::push_back(Json item) {
  if (is_null()) value_ = Array();
  return get<Array>().emplace_back(std::move(item));
}

bool Json::erase(std::string_view key) {
  Object& members = get<Object>();
  return std::erase_if(members, [&](const Member& member) { return member.key == key; }) > 0;
}

std::string Json::dump(const JsonStyle& style) const {
  std::string out;
  dump_to(out, style);
  return out;
}

void Json::dump_to(std::string& out, const JsonStyle& style) const {
  Dumper(out, style).value(*this, 0);
}

bool operator==(const Json& a, const Json& b) {
  return a.value_ == b.value_;
}

}  // namespace reprise
