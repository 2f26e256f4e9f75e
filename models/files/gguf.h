#pragma once
// Reads a GGUF model (version 2 or 3, little endian), in one or several files: metadata and tensors.
//
//   "GGUF" | u32 version | u64 tensors | u64 keys | keys and values | tensor descriptions | padding | data
//
// open() validates everything before it is used: counts fit the remaining bytes, tensors are aligned, inside
// the file and do not overlap, keys and names are unique. Violations throw a LoadError with file, key or
// tensor, and reason.
//
// A split model (`NAME-00001-of-0000N.gguf`) can be opened by any of its files; metadata come from the first,
// tensors from all N.
//
// Tensor names and values follow llama.cpp's conventions, as in the file; shapes are outermost dimension
// first.
//
// Threading: const access is thread-safe. Views stay valid when the object is moved.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/files/tensor_source.h"

namespace reprise::models {

// clang-format off
enum class GgufType : std::uint32_t {
  kU8 = 0, kI8 = 1, kU16 = 2, kI16 = 3, kU32 = 4, kI32 = 5, kF32 = 6,
  kBool = 7, kString = 8, kArray = 9, kU64 = 10, kI64 = 11, kF64 = 12,
};
// clang-format on

/// Returns "u8", "array", ...; "?" for an invalid type.
std::string_view name_of(GgufType type);

struct GgufValue {
  GgufType type = GgufType::kU8;
  GgufType element = GgufType::kU8;       // element type of an array
  std::uint64_t count = 1;                // elements of an array; 1 for a scalar
  std::span<const std::byte> bytes;       // numbers and bools: `count` of them, little endian, unaligned
  std::vector<std::string_view> strings;  // kString: one; an array of kString: `count`
  std::vector<GgufValue> arrays;          // an array of kArray: `count`

  bool is_array() const { return type == GgufType::kArray; }
};

/// The key-value part of a GGUF file. Strings are views into the mapping; arrays of numbers are converted by
/// the getters. Views are valid as long as the Gguf.
///
/// Getters throw a LoadError with file and key if the key is absent or has another type. integer() accepts
/// any integer type whose value fits, number() any integer or float.
class GgufMetadata {
 public:
  struct Entry {
    std::string_view key;
    GgufValue value;
  };

  explicit GgufMetadata(std::string file = "") : file_(std::move(file)) {}

  /// Throws LoadError if the key exists.
  void add(std::string_view key, GgufValue value);

  const std::string& file() const { return file_; }
  const std::vector<Entry>& entries() const { return entries_; }  // in file order

  bool has(std::string_view key) const { return index_.contains(key); }
  const GgufValue* find(std::string_view key) const;  // null: no such key

  std::string_view text(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  bool boolean(std::string_view key) const;

  /// As above, but return `fallback` if the key is absent. A wrong type is still an error.
  std::string_view text_or(std::string_view key, std::string_view fallback) const;
  std::int64_t integer_or(std::string_view key, std::int64_t fallback) const;
  double number_or(std::string_view key, double fallback) const;
  bool boolean_or(std::string_view key, bool fallback) const;

  /// Array getters. strings() returns a reference into this object; the others convert at each call.
  const std::vector<std::string_view>& strings(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key) const;
  std::vector<float> numbers(std::string_view key) const;
  std::vector<bool> booleans(std::string_view key) const;

 private:
  const GgufValue& at(std::string_view key) const;
  const GgufValue& array_at(std::string_view key) const;
  [[noreturn]] void wrong_type(std::string_view key, const GgufValue& value, std::string_view wanted) const;

  std::string file_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, std::size_t> index_;
};

class Gguf {
 public:
  static Gguf open(const std::filesystem::path& path);

  const std::string& path() const { return metadata_.file(); }
  std::uint32_t version() const { return version_; }
  const GgufMetadata& metadata() const { return metadata_; }
  const TensorSource& tensors() const { return tensors_; }
  /// Moves out the tensors and the mappings. The metadata refer to these mappings; do not use this object
  /// afterwards.
  TensorSource take_tensors() && { return std::move(tensors_); }

 private:
  Gguf() = default;

  std::uint32_t version_ = 0;
  TensorSource tensors_;  // owns the mappings that metadata_ refers to
  GgufMetadata metadata_;
};

}  // namespace reprise::models
