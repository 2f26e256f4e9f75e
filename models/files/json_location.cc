#include "models/files/json_location.h"

#include <utility>

#include "models/files/load_error.h"
#include "models/files/mapped_file.h"

namespace reprise::models {

struct JsonLocation::Document {
  std::string file;
  Json root;
};

JsonLocation JsonLocation::parse(std::string_view text, std::string_view file, const JsonLimits& limits) {
  Outcome<Json, JsonError> json = Json::parse(text, limits, {.python = true, .unique_keys = true});
  if (!json) throw LoadError(file, "", json.error().message);
  auto document = std::make_shared<Document>(Document{std::string(file), *std::move(json)});
  const Json* root = &document->root;
  return JsonLocation(std::move(document), root, "");
}

JsonLocation JsonLocation::read(const std::filesystem::path& path, const JsonLimits& limits) {
  const MappedFile file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file.bytes();
  return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.path(), limits);
}

const std::string& JsonLocation::file() const {
  return document_->file;
}

void JsonLocation::fail(std::string_view reason) const {
  throw LoadError(file(), path_, reason);
}

void JsonLocation::expect(bool is_so, std::string_view wanted) const {
  if (!is_so) fail("expected " + std::string(wanted) + ", found " + json_->kind_name());
}

std::int64_t JsonLocation::integer() const {
  expect(json_->is_int(), "an integer");
  return json_->as_int();
}

double JsonLocation::number() const {
  expect(json_->is_number(), "a number");
  return json_->as_double();
}

bool JsonLocation::boolean() const {
  expect(json_->is_bool(), "true or false");
  return json_->as_bool();
}

const std::string& JsonLocation::text() const {
  expect(json_->is_string(), "a string");
  return json_->as_string();
}

const Json::Array& JsonLocation::array(std::string_view wanted) const {
  expect(json_->is_array(), wanted);
  return json_->as_array();
}

const Json::Object& JsonLocation::object() const {
  expect(json_->is_object(), "an object");
  return json_->as_object();
}

std::size_t JsonLocation::size() const {
  expect(json_->is_array() || json_->is_object(), "an array or object");
  return json_->size();
}

JsonLocation JsonLocation::item(const Json& json, std::size_t i) const {
  return JsonLocation(document_, &json, path_ + "[" + std::to_string(i) + "]");
}

JsonLocation JsonLocation::member(const Json& json, std::string_view key) const {
  return JsonLocation(document_, &json, path_.empty() ? std::string(key) : path_ + "." + std::string(key));
}

JsonLocation JsonLocation::at(std::size_t i) const {
  const Json::Array& items = array("an array");
  if (i >= items.size()) fail("has no item " + std::to_string(i));
  return item(items[i], i);
}

std::vector<std::int64_t> JsonLocation::integers() const {
  const Json::Array& items = array("an array of integers");
  std::vector<std::int64_t> out;
  out.reserve(items.size());
  for (const Json& json : items) {
    out.push_back(json.is_int() ? json.as_int() : item(json, out.size()).integer());
  }
  return out;
}

std::vector<std::string> JsonLocation::texts() const {
  const Json::Array& items = array("an array of strings");
  std::vector<std::string> out;
  out.reserve(items.size());
  for (const Json& json : items) {
    out.push_back(json.is_string() ? json.as_string() : item(json, out.size()).text());
  }
  return out;
}

std::optional<JsonLocation> JsonLocation::find(std::string_view key) const {
  expect(json_->is_object(), "an object");
  const Json* found = json_->find(key);
  if (found == nullptr || found->is_null()) return std::nullopt;
  return member(*found, key);
}

JsonLocation JsonLocation::at(std::string_view key) const {
  std::optional<JsonLocation> found = find(key);
  if (!found) member(*json_, key).fail("is missing");
  return *std::move(found);
}

const std::string& JsonLocation::key_at(std::size_t i) const {
  const Json::Object& members = object();
  if (i >= members.size()) fail("has no member " + std::to_string(i));
  return members[i].key;
}

JsonLocation JsonLocation::value_at(std::size_t i) const {
  const std::string& key = key_at(i);
  return member(object()[i].value, key);
}

std::int64_t JsonLocation::integer_or(std::string_view key, std::int64_t fallback) const {
  const std::optional<JsonLocation> found = find(key);
  return found ? found->integer() : fallback;
}

double JsonLocation::number_or(std::string_view key, double fallback) const {
  const std::optional<JsonLocation> found = find(key);
  return found ? found->number() : fallback;
}

bool JsonLocation::boolean_or(std::string_view key, bool fallback) const {
  const std::optional<JsonLocation> found = find(key);
  return found ? found->boolean() : fallback;
}

std::string JsonLocation::text_or(std::string_view key, std::string_view fallback) const {
  const std::optional<JsonLocation> found = find(key);
  return found ? found->text() : std::string(fallback);
}

}  // namespace reprise::models
