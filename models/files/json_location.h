#pragma once
// A JSON value with its file and path, so that errors name both:
// "config.json: text_config.hidden_size: expected an integer, found a string".
//
// A JsonLocation shares ownership of the document and is cheap to copy. Nothing refers to the parsed text.
//
// The parser also accepts what Python's json module writes: NaN, Infinity, -Infinity, and integers of any
// length (those past 64 bits become floats). It rejects duplicate keys and texts over the limits.
//
// Getters throw LoadError if the value has another type. A null member counts as absent, as in Hugging Face
// configs.
//
// Threading: const access is thread-safe.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace reprise::models {

/// Limits for files, large enough for a vocabulary.
inline constexpr JsonLimits kFileJson{
    .bytes = 64u << 20, .depth = 64, .values = 32u << 20, .members = 16u << 20};

class JsonLocation {
 public:
  using Kind = Json::Kind;

  static JsonLocation parse(std::string_view text, std::string_view file,
                            const JsonLimits& limits = kFileJson);
  static JsonLocation read(const std::filesystem::path& path, const JsonLimits& limits = kFileJson);

  Kind kind() const { return json_->kind(); }
  bool is(Kind kind) const { return this->kind() == kind; }

  std::int64_t integer() const;
  double number() const;  // also accepts an integer; may be infinite or NaN
  bool boolean() const;
  const std::string& text() const;

  // Arrays.
  std::size_t size() const;  // array or object
  JsonLocation at(std::size_t i) const;
  std::vector<std::int64_t> integers() const;
  std::vector<std::string> texts() const;

  // Objects.
  bool has(std::string_view key) const { return find(key).has_value(); }
  std::optional<JsonLocation> find(std::string_view key) const;  // nullopt: absent or null
  JsonLocation at(std::string_view key) const;                   // throws LoadError: absent or null
  const std::string& key_at(std::size_t i) const;                // in file order
  JsonLocation value_at(std::size_t i) const;

  // Members, or `fallback` if absent.
  std::int64_t integer_or(std::string_view key, std::int64_t fallback) const;
  double number_or(std::string_view key, double fallback) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  std::string text_or(std::string_view key, std::string_view fallback) const;

  const std::string& file() const;
  const std::string& path() const { return path_; }  // empty for the root

  /// Throws a LoadError with this file and path.
  [[noreturn]] void fail(std::string_view reason) const;

 private:
  struct Document;

  JsonLocation(std::shared_ptr<const Document> document, const Json* json, std::string path)
      : document_(std::move(document)), json_(json), path_(std::move(path)) {}

  void expect(bool is_so, std::string_view wanted) const;
  const Json::Array& array(std::string_view wanted) const;
  const Json::Object& object() const;
  JsonLocation item(const Json& json, std::size_t i) const;
  JsonLocation member(const Json& json, std::string_view key) const;

  std::shared_ptr<const Document> document_;
  const Json* json_;
  std::string path_;
};

}  // namespace reprise::models
