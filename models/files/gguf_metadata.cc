#include "models/files/gguf_metadata.h"

#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "models/files/load_error.h"

namespace reprise::models {
namespace {

template <class T>
T element(std::span<const std::byte> bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

// Calls use(i, element) for each; false for a type that is not a number (bools are read as u8).
template <class Use>
bool for_each_number(GgufType type, std::span<const std::byte> bytes, std::uint64_t count, Use use) {
  const auto all = [&]<class T>(T) {
    for (std::size_t i = 0; i < count; ++i) use(i, element<T>(bytes, i));
    return true;
  };
  switch (type) {
    case GgufType::kU8:
      return all(std::uint8_t{});
    case GgufType::kI8:
      return all(std::int8_t{});
    case GgufType::kU16:
      return all(std::uint16_t{});
    case GgufType::kI16:
      return all(std::int16_t{});
    case GgufType::kU32:
      return all(std::uint32_t{});
    case GgufType::kI32:
      return all(std::int32_t{});
    case GgufType::kU64:
      return all(std::uint64_t{});
    case GgufType::kI64:
      return all(std::int64_t{});
    case GgufType::kF32:
      return all(float{});
    case GgufType::kF64:
      return all(double{});
    case GgufType::kBool:
    case GgufType::kString:
    case GgufType::kArray:
      return false;
  }
  return false;
}

bool is_float(GgufType type) {
  return type == GgufType::kF32 || type == GgufType::kF64;
}

GgufType element_type(const GgufValue& value) {
  return value.is_array() ? value.element : value.type;
}

// Nothing: a type that is not an integer, or a value outside int64.
std::optional<std::vector<std::int64_t>> as_integers(const GgufValue& value) {
  const GgufType type = element_type(value);
  if (is_float(type)) return std::nullopt;
  std::vector<std::int64_t> out(value.bytes.size() >= value.count ? value.count : 0);
  bool fits = true;
  const bool numbers = for_each_number(type, value.bytes, value.count, [&](std::size_t i, auto number) {
    out[i] = static_cast<std::int64_t>(number);
    if constexpr (std::is_same_v<decltype(number), std::uint64_t>)
      fits = fits && std::in_range<std::int64_t>(number);
  });
  if (!numbers || !fits) return std::nullopt;
  return out;
}

}  // namespace

std::string_view name_of(GgufType type) {
  switch (type) {
    case GgufType::kU8:
      return "u8";
    case GgufType::kI8:
      return "i8";
    case GgufType::kU16:
      return "u16";
    case GgufType::kI16:
      return "i16";
    case GgufType::kU32:
      return "u32";
    case GgufType::kI32:
      return "i32";
    case GgufType::kF32:
      return "f32";
    case GgufType::kBool:
      return "bool";
    case GgufType::kString:
      return "string";
    case GgufType::kArray:
      return "array";
    case GgufType::kU64:
      return "u64";
    case GgufType::kI64:
      return "i64";
    case GgufType::kF64:
      return "f64";
  }
  return "?";
}

void GgufMetadata::add(std::string_view key, GgufValue value) {
  if (!index_.emplace(key, entries_.size()).second) throw LoadError(file_, key, "this key is there twice");
  entries_.push_back({key, std::move(value)});
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second].value;
}

const GgufValue& GgufMetadata::at(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) throw LoadError(file_, key, "this key is missing");
  return *value;
}

const GgufValue& GgufMetadata::array_at(std::string_view key) const {
  const GgufValue& value = at(key);
  if (!value.is_array()) wrong_type(key, value, "an array");
  return value;
}

void GgufMetadata::wrong_type(std::string_view key, const GgufValue& value, std::string_view wanted) const {
  std::string found(name_of(value.type));
  if (value.is_array()) found += " of " + std::string(name_of(value.element));
  throw LoadError(file_, key, "expected " + std::string(wanted) + ", found " + found);
}

std::string_view GgufMetadata::text(std::string_view key) const {
  const GgufValue& value = at(key);
  if (value.type != GgufType::kString) wrong_type(key, value, "a string");
  return value.strings.front();
}

std::int64_t GgufMetadata::integer(std::string_view key) const {
  const GgufValue& value = at(key);
  const auto found = value.is_array() ? std::nullopt : as_integers(value);
  if (!found) wrong_type(key, value, "an integer below 2^63");
  return found->front();
}

double GgufMetadata::number(std::string_view key) const {
  const GgufValue& value = at(key);
  double found = 0;
  if (!for_each_number(value.type, value.bytes, 1,
                       [&](std::size_t, auto n) { found = static_cast<double>(n); })) {
    wrong_type(key, value, "a number");
  }
  return found;
}

bool GgufMetadata::boolean(std::string_view key) const {
  const GgufValue& value = at(key);
  if (value.type != GgufType::kBool) wrong_type(key, value, "a bool");
  return value.bytes[0] != std::byte{0};
}

std::string_view GgufMetadata::text_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? text(key) : fallback;
}

std::int64_t GgufMetadata::integer_or(std::string_view key, std::int64_t fallback) const {
  return has(key) ? integer(key) : fallback;
}

double GgufMetadata::number_or(std::string_view key, double fallback) const {
  return has(key) ? number(key) : fallback;
}

bool GgufMetadata::boolean_or(std::string_view key, bool fallback) const {
  return has(key) ? boolean(key) : fallback;
}

const std::vector<std::string_view>& GgufMetadata::strings(std::string_view key) const {
  const GgufValue& value = array_at(key);
  if (value.element != GgufType::kString) wrong_type(key, value, "an array of strings");
  return value.strings;
}

std::vector<std::int64_t> GgufMetadata::integers(std::string_view key) const {
  const GgufValue& value = array_at(key);
  auto found = as_integers(value);
  if (!found) wrong_type(key, value, "an array of integers below 2^63");
  return *std::move(found);
}

std::vector<float> GgufMetadata::numbers(std::string_view key) const {
  const GgufValue& value = array_at(key);
  std::vector<float> out(value.bytes.size() >= value.count ? value.count : 0);
  const auto store = [&](std::size_t i, auto number) { out[i] = static_cast<float>(number); };
  if (!for_each_number(value.element, value.bytes, value.count, store)) {
    wrong_type(key, value, "an array of numbers");
  }
  return out;
}

std::vector<bool> GgufMetadata::booleans(std::string_view key) const {
  const GgufValue& value = array_at(key);
  if (value.element != GgufType::kBool) wrong_type(key, value, "an array of bools");
  std::vector<bool> out(value.count);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = value.bytes[i] != std::byte{0};
  return out;
}

}  // namespace reprise::models
