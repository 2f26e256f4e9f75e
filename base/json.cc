#include "base/json.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "base/utf8.h"

namespace reprise {
namespace {

// -- Python's extensions to JSON: NaN, Infinity, -Infinity, and integers beyond 64 bits

// A word such as Infinity is replaced by a string, and its index among all strings of the text (keys
// included) is recorded, so no real string is mistaken for it. An integer that may not fit 64 bits gets an
// exponent, which makes it a double.
struct PythonJson {
  struct Word {
    std::size_t string_number;
    double value;
  };
  std::string text;
  std::vector<Word> words;  // in text order
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Returns the offset after the closing quote of the string opened at `at`, or the end of the text.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return text.size();
}

// Linear time and memory; the text need not be valid JSON.
PythonJson rewrite_python_json(std::string_view text) {
  PythonJson out;
  out.text.reserve(text.size());
  std::size_t strings = 0;
  const auto word_at = [&](std::string_view word, double value, std::size_t& at) {
    if (!text.substr(at).starts_with(word)) return false;
    out.words.push_back({strings++, value});
    out.text += "\"\"";
    at += word.size();
    return true;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      const std::size_t end = end_of_string(text, at);
      out.text += text.substr(at, end - at);
      at = end;
      ++strings;
    } else if (c == '-' || is_digit(c)) {
      if (word_at("-Infinity", -kInfinity, at)) continue;
      std::size_t end = at + 1;
      while (end < text.size() && is_digit(text[end])) ++end;
      const bool whole = end == text.size() || (text[end] != '.' && text[end] != 'e' && text[end] != 'E');
      out.text += text.substr(at, end - at);
      if (whole && end - at > 19) out.text += "e0";  // may not fit 64 bits: read as a double
      at = end;
      if (!whole) {  // skip the digits of an exponent
        while (at < text.size() &&
               (is_digit(text[at]) || std::string_view("+-.eE").find(text[at]) != text.npos)) {
          out.text += text[at++];
        }
      }
    } else if (!word_at("Infinity", kInfinity, at) &&
               !word_at("NaN", std::numeric_limits<double>::quiet_NaN(), at)) {
      out.text += c;
      ++at;
    }
  }
  return out;
}

// -- duplicate keys

constexpr std::size_t kFew = 16;  // up to this size, pairwise comparison is faster than sorting

bool all_differ(const Json::Object& few) {
  for (std::size_t i = 1; i < few.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (few[i].key == few[j].key) return false;
    }
  }
  return true;
}

struct IndexedKey {
  std::string_view key;
  std::size_t position;
};

// Any order works that groups equal keys by position; comparing lengths first is the fastest.
bool comes_before(const IndexedKey& a, const IndexedKey& b) {
  if (a.key.size() != b.key.size()) return a.key.size() < b.key.size();
  const int order = a.key.compare(b.key);
  return order != 0 ? order < 0 : a.position < b.position;
}

std::vector<IndexedKey> sorted_keys(const Json::Object& members) {
  std::vector<IndexedKey> sorted;
  sorted.reserve(members.size());
  for (const Json::Member& member : members) sorted.push_back({member.key, sorted.size()});
  std::sort(sorted.begin(), sorted.end(), comes_before);
  return sorted;
}

// Returns a key that occurs twice, or null. Costs as much as merge_same_keys().
const std::string* repeated_key(const Json::Object& members) {
  if (members.size() <= kFew && all_differ(members)) return nullptr;
  const std::vector<IndexedKey> sorted = sorted_keys(members);
  const auto same = std::adjacent_find(
      sorted.begin(), sorted.end(), [](const IndexedKey& a, const IndexedKey& b) { return a.key == b.key; });
  return same == sorted.end() ? nullptr : &members[same->position].key;
}

// Keeps the last value of each key at the position of its first, as Python does. Sorts instead of hashing, so
// no choice of keys costs more than O(n log n) comparisons.
void merge_same_keys(Json::Object& members) {
  if (members.size() <= kFew && all_differ(members)) return;
  const std::vector<IndexedKey> sorted = sorted_keys(members);

  std::vector<bool> repeats;  // by position; empty: no key repeats
  for (auto first = sorted.begin(); first != sorted.end();) {
    const auto end = std::find_if(first + 1, sorted.end(),
                                  [&](const IndexedKey& other) { return other.key != first->key; });
    if (end - first > 1) {
      repeats.resize(members.size());
      members[first->position].value = std::move(members[(end - 1)->position].value);
      for (auto repeat = first + 1; repeat != end; ++repeat) repeats[repeat->position] = true;
    }
    first = end;
  }
  if (repeats.empty()) return;
  std::size_t position = 0;  // std::erase_if calls the predicate once per member, in order
  std::erase_if(members, [&](const Json::Member&) { return repeats[position++]; });
}

// -- errors

// Finds the first error of a text: simdjson does not report its location.
class FaultFinder {
 public:
  FaultFinder(std::string_view text, const JsonLimits& limits, const JsonReading& reading)
      : text_(text), limits_(limits), reading_(reading) {}

  JsonFault run() {
    if (!read_document() || !fault_.reason.empty()) return fault_;
    return {};
  }

 private:
  bool fail(std::string reason) { return fail_at(at_, std::move(reason)); }
  bool fail_at(std::size_t offset, std::string reason) {
    if (fault_.reason.empty()) fault_ = {offset, std::move(reason)};
    return false;
  }

  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }

  void skip_space() {
    while (!at_end() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) ++at_;
  }

  // Keeps open arrays and objects on an explicit stack of '[' and '{'.
  bool read_document() {
    skip_space();
    if (at_end()) return fail("there is no value");
    std::vector<char> open;
    for (bool wants_value = true;;) {
      skip_space();
      if (wants_value) {
        if (!at_end() && ++values_ > limits_.values) {
          return fail("more than " + std::to_string(limits_.values) + " values");
        }
        if (peek() == '[' || peek() == '{') {
          if (open.size() >= limits_.depth) {
            return fail("nested deeper than " + std::to_string(limits_.depth));
          }
          open.push_back(text_[at_++]);
          skip_space();
          if (peek() == (open.back() == '[' ? ']' : '}') && !at_end()) {
            ++at_;
            open.pop_back();
            wants_value = false;
          } else if (open.back() == '{' && !read_key()) {
            return false;
          }
          continue;
        }
        if (!read_scalar()) return false;
        wants_value = false;
        continue;
      }
      if (open.empty()) return at_end() || fail("there is text behind the value");
      if (at_end()) return fail(open.back() == '[' ? "an array is not closed" : "an object is not closed");
      const char close = open.back() == '[' ? ']' : '}';
      if (peek() == close) {
        ++at_;
        open.pop_back();
      } else if (peek() == ',') {
        ++at_;
        skip_space();
        if (open.back() == '{' && !read_key()) return false;
        wants_value = true;
      } else {
        return fail(std::string("expected ',' or '") + close + "'");
      }
    }
  }

  bool read_key() {
    if (peek() != '"') return fail("expected a key in quotes");
    if (++members_ > limits_.members) {
      return fail("more than " + std::to_string(limits_.members) + " members of objects");
    }
    if (!read_string()) return false;
    skip_space();
    if (peek() != ':') return fail("expected ':' after a key");
    ++at_;
    return true;
  }

  bool read_scalar() {
    const char c = peek();
    if (at_end()) return fail("the text ends where a value is expected");
    if (c == '"') return read_string();
    if (reading_.python && take_word({"NaN", "Infinity", "-Infinity"})) return true;
    if (c == '-' || (c >= '0' && c <= '9')) return read_number();
    return take_word({"true", "false", "null"}) || fail("expected a value");
  }

  bool take_word(std::initializer_list<std::string_view> words) {
    for (const std::string_view word : words) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return true;
      }
    }
    return false;
  }

  bool read_digits() {
    const std::size_t start = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ > start;
  }

  static bool fits_64_bits(std::string_view digits) {
    const char* end = digits.data() + digits.size();
    std::uint64_t magnitude = 0;
    std::int64_t negative = 0;
    const auto read = digits.front() == '-' ? std::from_chars(digits.data(), end, negative)
                                            : std::from_chars(digits.data(), end, magnitude);
    return read.ec == std::errc();
  }

  bool read_number() {
    const std::size_t start = at_;
    if (peek() == '-') ++at_;
    const bool zero = peek() == '0';
    const std::size_t first = at_;
    if (!read_digits()) return fail("a '-' without digits");
    if (zero && at_ - first > 1) return fail_at(start, "a number with a leading zero");
    bool whole = true;
    if (peek() == '.') {
      whole = false;
      ++at_;
      if (!read_digits()) return fail("a number without digits behind its point");
    }
    if (peek() == 'e' || peek() == 'E') {
      whole = false;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!read_digits()) return fail("a number without digits in its exponent");
    }
    if (whole && !fits_64_bits(text_.substr(start, at_ - start))) too_long_ = start;
    return true;
  }

  bool read_hex4(std::uint32_t& value) {
    value = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return fail("\\u without four hexadecimal digits");
      value = value << 4 | static_cast<std::uint32_t>(digit);
    }
    return true;
  }

  bool read_escape() {
    const std::size_t start = at_++;
    const char c = peek();
    ++at_;
    if (c != 'u') {
      if (std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos || c == '\0') {
        return fail_at(start, "an escape that JSON does not have");
      }
      return true;
    }
    std::uint32_t unit = 0;
    if (!read_hex4(unit)) return false;
    if (unit >= 0xDC00 && unit <= 0xDFFF) return fail_at(start, "half of a surrogate pair");
    if (unit < 0xD800 || unit > 0xDBFF) return true;
    if (!text_.substr(at_).starts_with("\\u")) return fail_at(start, "half of a surrogate pair");
    at_ += 2;
    if (!read_hex4(unit)) return false;
    return (unit >= 0xDC00 && unit <= 0xDFFF) || fail_at(start, "half of a surrogate pair");
  }

  bool read_string() {
    const std::size_t start = at_++;
    while (!at_end()) {
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') {
        ++at_;
        return true;
      }
      if (c == '\\') {
        if (!read_escape()) return false;
      } else if (c < 0x20) {
        return fail("a control character inside a string");
      } else {
        const Utf8Char character = read_utf8(text_, at_);
        if (!character.is_valid) return fail("invalid UTF-8");
        at_ += character.length;
      }
    }
    return fail_at(start, "a string is not closed");
  }

 public:
  std::optional<std::size_t> long_integer() const { return too_long_; }

 private:
  std::string_view text_;
  const JsonLimits& limits_;
  const JsonReading& reading_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
  std::size_t members_ = 0;
  JsonFault fault_;
  std::optional<std::size_t> too_long_;  // offset of an integer that does not fit 64 bits
};

// -- parsing and writing

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

// Copies simdjson's document up to the limits; `words` restores Python's extensions.
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
  /// Why the text is rejected after all; empty if it is not.
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

  /// Counts a string of the text; returns the Python word that it replaced, or null.
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
  std::size_t strings_ = 0;       // strings seen, keys included
  const PythonJson::Word* word_;  // next word expected
  const PythonJson::Word* const words_end_;
};

/// simdjson's parser with its buffers, which cost more to allocate than a typical text takes to parse.
class DomParser {
 public:
  /// The element is valid until the next call.
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

constexpr std::size_t kUsualText = 64u << 10;  // bytes; each thread keeps buffers for texts up to this size

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
    if (style_.sort_keys) {  // byte order of UTF-8 is code point order
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

JsonFault diagnose_json(std::string_view text, const JsonLimits& limits, const JsonReading& reading) {
  FaultFinder finder(text, limits, reading);
  JsonFault fault = finder.run();
  if (fault.reason.empty() && !reading.python && finder.long_integer()) {
    fault = {*finder.long_integer(), "an integer that does not fit 64 bits"};
  }
  return fault;
}

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
  // simdjson counts depth differently and may accept one level more, which the builder then rejects.
  const simdjson::error_code error =  // also validates UTF-8
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
