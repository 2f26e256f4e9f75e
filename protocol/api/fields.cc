#include "protocol/api/fields.h"

#include <algorithm>
#include <cmath>

#include "protocol/api/api_error.h"

namespace reprise::protocol {
namespace {

constexpr std::size_t kFewMembers = 32;
constexpr std::size_t kQuotedBytes = 80;

}  // namespace

std::string item_of(const std::string& path, std::size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

void refuse_kind(const std::string& field, std::string_view wanted, const Json& got) {
  refuse_field(field, "invalid_type", "must be " + std::string(wanted) + ", not " + got.kind_name());
}

std::string in_quotes(std::string_view text) {
  std::size_t end = std::min(text.size(), kQuotedBytes);
  if (end < text.size()) {  // not inside a character
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

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object() || object.size() <= kFewMembers) return;
  by_name_.reserve(object.size());
  for (const Json::Member& member : object.as_object()) by_name_.push_back(&member);
  std::sort(by_name_.begin(), by_name_.end(), [](const auto* a, const auto* b) { return a->key < b->key; });
}

std::string Fields::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

const Json* Fields::find(std::string_view name) const {
  const Json* value = nullptr;
  if (by_name_.empty()) {
    value = object_.find(name);
  } else {
    const auto place =
        std::lower_bound(by_name_.begin(), by_name_.end(), name,
                         [](const auto* member, std::string_view n) { return member->key < n; });
    if (place != by_name_.end() && (*place)->key == name) value = &(*place)->value;
  }
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::optional<bool> Fields::boolean(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) refuse_kind(path_of(name), "a boolean", *value);
  return value->as_bool();
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t least,
                                            std::int64_t most) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  std::int64_t number = 0;
  if (value->is_int()) {
    number = value->as_int();
  } else if (value->is_double() && value->as_double() == std::floor(value->as_double()) &&
             std::abs(value->as_double()) < 9e15) {  // 1.0 where 1 is meant: some clients write all so
    number = static_cast<std::int64_t>(value->as_double());
  } else {
    refuse_kind(path_of(name), "an integer", *value);
  }
  if (number < least || number > most) {
    refuse_field(
        path_of(name), "out_of_range",
        std::to_string(number) + " is not from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return number;
}

std::optional<double> Fields::number(std::string_view name, double least, double most) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) refuse_kind(path_of(name), "a number", *value);
  const double number = value->as_double();
  if (!(number >= least && number <= most)) {
    refuse_field(path_of(name), "out_of_range",
                 show_number(number) + " is not from " + show_number(least) + " to " + show_number(most));
  }
  return number;
}

const std::string* Fields::string(std::string_view name, std::size_t most_bytes) const {
  const Json* value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_string()) refuse_kind(path_of(name), "a string", *value);
  const std::string& text = value->as_string();
  if (text.size() > most_bytes) {
    refuse_field(path_of(name), "too_long",
                 "has " + std::to_string(text.size()) + " bytes, more than " + std::to_string(most_bytes));
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

}  // namespace reprise::protocol
