#include "protocol/api/fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <limits>

#include "protocol/api/api_error.h"

namespace reprise::protocol {
namespace {

constexpr std::size_t kFewMembers = 32;
constexpr std::size_t kQuotedBytes = 80;
constexpr std::int64_t kMaxTokenId = std::numeric_limits<TokenId>::max();

thread_local LookupRecorder* recorder = nullptr;

/// "tools[3].name" -> "tools[].name".
std::string without_indices(std::string_view path) {
  std::string out;
  bool within = false;
  for (const char c : path) {
    if (c == ']') within = false;
    if (!within) out += c;
    if (c == '[') within = true;
  }
  return out;
}

}  // namespace

struct Fields::ReadObject {
  const Json* object;
  std::string path;
  std::vector<bool> read;  // per member: it was looked up
};

struct Fields::Reading {
  std::deque<ReadObject> objects;                         // Fields point to them
  std::vector<std::pair<std::string, const Json*>> more;  // looked up, without effect
};

LookupRecorder::LookupRecorder() {
  recorder = this;
}
LookupRecorder::~LookupRecorder() {
  recorder = nullptr;
}

std::string item_of(const std::string& path, std::size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

void refuse_kind(const std::string& field, std::string_view wanted, const Json& got) {
  refuse_field(field, "invalid_type", "must be " + std::string(wanted) + ", not " + got.kind_name());
}

std::string in_quotes(std::string_view text) {
  std::size_t end = std::min(text.size(), kQuotedBytes);
  if (end < text.size()) {
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  }
  std::string out(1, '\'');
  out += text.substr(0, end);
  out += end < text.size() ? "…'" : "'";
  return out;
}

std::string show_number(double value) {
  std::string text;
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    append_integer(text, static_cast<std::int64_t>(value));
  } else {
    append_json_double(text, value, false);
  }
  return text;
}

Fields::Fields(const Json& body) : object_(body), reading_(std::make_shared<Reading>()) {
  sort_names();
  remember();
}

Fields::Fields(const Json& object, std::string path, const Fields& body)
    : object_(object), path_(std::move(path)), reading_(body.reading_) {
  sort_names();
  remember();
}

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  sort_names();
}

void Fields::sort_names() {
  if (!object_.is_object() || object_.size() <= kFewMembers) return;
  by_name_.reserve(object_.size());
  for (const Json::Member& member : object_.as_object()) by_name_.push_back(&member);
  std::sort(by_name_.begin(), by_name_.end(), [](const auto* a, const auto* b) { return a->key < b->key; });
}

void Fields::remember() {
  if (reading_ == nullptr || !object_.is_object()) return;
  for (ReadObject& known : reading_->objects) {  // an object may be read in several steps
    if (known.object == &object_) read_ = &known;
  }
  if (read_ != nullptr) return;
  reading_->objects.push_back({&object_, path_, std::vector<bool>(object_.size())});
  read_ = &reading_->objects.back();
}

void Fields::visit_unread(const Visit& visit) const {
  if (reading_ == nullptr) return;
  for (const ReadObject& known : reading_->objects) {
    const Json::Object& members = known.object->as_object();
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (known.read[i] || members[i].value.is_null()) continue;
      const std::string before = known.path.empty() ? std::string() : without_indices(known.path) + ".";
      visit(before + members[i].key, members[i].value);
    }
  }
  for (const auto& [path, value] : reading_->more) visit(path, *value);
}

void Fields::mark_unread(std::string path, const Json& value) const {
  if (reading_ != nullptr) reading_->more.emplace_back(without_indices(path), &value);
}

std::string Fields::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

const Json* Fields::find(std::string_view name) const {
  if (read_ != nullptr && recorder != nullptr) recorder->paths.insert(without_indices(path_of(name)));
  if (!object_.is_object()) return nullptr;
  const Json::Object& members = object_.as_object();
  const Json::Member* member = nullptr;
  if (by_name_.empty()) {
    const auto found = std::find_if(members.begin(), members.end(),
                                    [name](const Json::Member& one) { return one.key == name; });
    if (found != members.end()) member = &*found;
  } else {
    const auto entry = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                        [](const auto* one, std::string_view n) { return one->key < n; });
    if (entry != by_name_.end() && (*entry)->key == name) member = *entry;
  }
  if (member == nullptr || member->value.is_null()) return nullptr;
  if (read_ != nullptr) read_->read[static_cast<std::size_t>(member - members.data())] = true;
  return &member->value;
}

std::optional<bool> Fields::boolean(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) refuse_kind(path_of(name), "a boolean", *value);
  return value->as_bool();
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t min, std::int64_t max) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  std::int64_t number = 0;
  if (value->is_int()) {
    number = value->as_int();
  } else if (value->is_double() && value->as_double() == std::floor(value->as_double()) &&
             std::abs(value->as_double()) <
                 9e15) {  // 1.0 is accepted as 1: some clients write all numbers so
    number = static_cast<std::int64_t>(value->as_double());
  } else {
    refuse_kind(path_of(name), "an integer", *value);
  }
  if (number < min || number > max) {
    refuse_field(
        path_of(name), "out_of_range",
        std::to_string(number) + " is not from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return number;
}

std::optional<double> Fields::number(std::string_view name, double min, double max) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) refuse_kind(path_of(name), "a number", *value);
  const double number = value->as_double();
  if (!(number >= min && number <= max)) {
    refuse_field(path_of(name), "out_of_range",
                 show_number(number) + " is not from " + show_number(min) + " to " + show_number(max));
  }
  return number;
}

const std::string* Fields::string(std::string_view name, std::size_t max_bytes) const {
  const Json* value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_string()) refuse_kind(path_of(name), "a string", *value);
  const std::string& text = value->as_string();
  if (text.size() > max_bytes) {
    refuse_field(path_of(name), "too_long",
                 "has " + std::to_string(text.size()) + " bytes, more than " + std::to_string(max_bytes));
  }
  return &text;
}

const Json::Array* Fields::array(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) refuse_kind(path_of(name), "an array", *value);
  return &value->as_array();
}

const Json* Fields::object(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) refuse_kind(path_of(name), "an object", *value);
  return value;
}

std::optional<Fields> Fields::within(std::string_view name) const {
  const Json* value = object(name);
  if (value == nullptr) return std::nullopt;
  if (reading_ == nullptr) return Fields(*value, path_of(name));
  return Fields(*value, path_of(name), *this);
}

TokenList read_token_list(const Json::Array& items, const std::string& path, const BodyLimits& limits) {
  if (items.size() > limits.prompt_tokens) {
    refuse_field(path, "too_long",
                 std::to_string(items.size()) + " tokens, more than " + std::to_string(limits.prompt_tokens));
  }
  TokenList tokens;
  tokens.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_int()) refuse_kind(item_of(path, i), "a token id", items[i]);
    const std::int64_t id = items[i].as_int();
    if (id < 0 || id > kMaxTokenId) {
      refuse_field(item_of(path, i), "out_of_range", std::to_string(id) + " is not a token id");
    }
    tokens.push_back(static_cast<TokenId>(id));
  }
  return tokens;
}

Json parse_body(std::string_view body, const BodyLimits& limits, BodyHolds holds) {
  const std::size_t ids = holds == BodyHolds::kTokenIds ? limits.prompt_tokens : 0;
  Outcome<Json, JsonError> parsed = Json::parse(body, {.bytes = body.size(),
                                                       .depth = limits.nesting,
                                                       .values = limits.values + ids,
                                                       .members = limits.members});
  if (!parsed)
    throw BadRequest(
        {.kind = ErrorKind::kInvalid, .message = parsed.error().message, .code = "invalid_json"});
  if (!parsed->is_object()) {
    throw BadRequest({.kind = ErrorKind::kInvalid,
                      .message = std::string("the body must be a JSON object, not ") + parsed->kind_name(),
                      .code = "invalid_json"});
  }
  return std::move(*parsed);
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  while (!text.empty()) {
    unsigned byte = 0;
    if (text[0] == '%' && text.size() >= 3 &&
        std::from_chars(text.data() + 1, text.data() + 3, byte, 16).ptr == text.data() + 3) {
      decoded += static_cast<char>(byte);
      text.remove_prefix(3);
    } else {
      decoded += text[0];
      text.remove_prefix(1);
    }
  }
  return decoded;
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view member = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(member.size() + 1, query.size()));
    const std::size_t equals = member.find('=');
    if (percent_decoded(member.substr(0, equals)) != name) continue;
    std::string value(equals == std::string_view::npos ? std::string_view() : member.substr(equals + 1));
    std::replace(value.begin(), value.end(), '+', ' ');
    return percent_decoded(value);
  }
  return std::nullopt;
}

}  // namespace reprise::protocol
