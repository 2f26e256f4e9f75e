#pragma once
// A JSON document and places in it.
//
// A Json is a value together with the file it came from and the path that leads to it, so that every
// complaint names both: "config.json: text_config.hidden_size: expected an integer, found a string". It keeps
// the document alive and is cheap to copy. The value tree is owned: nothing points into the parsed text.
//
// Beyond the standard it reads what Python's json module writes: NaN, Infinity, -Infinity, and integers of
// any length (those past 64 bits become numbers). Duplicate keys are refused; so are texts over the limits.
//
// A getter throws LoadError when the value has another type. A member that is null counts as absent, as in
// the configs of Hugging Face.
//
// Threading: const access from any thread.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::models {

struct JsonLimits {
  std::uint64_t bytes = 64u << 20;  // of text
  std::size_t depth = 64;           // nested arrays and objects
};

class Json {
 public:
  enum class Kind : std::uint8_t { kNull, kBoolean, kInteger, kNumber, kString, kArray, kObject };

  static Json parse(std::string_view text, std::string_view file, const JsonLimits& limits = {});
  static Json read(const std::filesystem::path& path, const JsonLimits& limits = {});

  Kind kind() const;
  bool is(Kind kind) const { return this->kind() == kind; }

  std::int64_t integer() const;
  double number() const;  // takes an integer too; may be infinite or NaN
  bool boolean() const;
  const std::string& text() const;

  // Arrays.
  std::size_t size() const;  // of an array or object
  Json at(std::size_t i) const;
  std::vector<std::int64_t> integers() const;
  std::vector<std::string> texts() const;

  // Objects.
  bool has(std::string_view key) const { return find(key).has_value(); }
  std::optional<Json> find(std::string_view key) const;  // nothing: absent or null
  Json at(std::string_view key) const;                   // LoadError: absent or null
  const std::string& key_at(std::size_t i) const;        // keys in the file's order
  Json value_at(std::size_t i) const;

  // Members, with a value for when they are absent.
  std::int64_t integer_or(std::string_view key, std::int64_t fallback) const;
  double number_or(std::string_view key, double fallback) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  std::string text_or(std::string_view key, std::string_view fallback) const;

  const std::string& file() const;
  const std::string& path() const { return path_; }  // empty for the root

  /// Throws a LoadError that names this place.
  [[noreturn]] void fail(std::string_view reason) const;

 private:
  struct Node;
  struct Document;
  struct Builder;

  Json(std::shared_ptr<const Document> document, const Node* node, std::string path)
      : document_(std::move(document)), node_(node), path_(std::move(path)) {}

  template <class T>
  const T& get(std::string_view wanted) const;
  Json item(const Node& node, std::size_t i) const;
  Json member(const Node& node, std::string_view key) const;

  std::shared_ptr<const Document> document_;
  const Node* node_;
  std::string path_;
};

}  // namespace reprise::models
