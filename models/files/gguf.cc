#include "models/files/gguf.h"

#include <bit>
#include <cstdio>
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

// Calls use(i, element) for each element; returns false if the type is not numeric (bools are read as u8).
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

// Returns nullopt for a type that is not an integer, or a value outside int64.
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

static_assert(std::endian::native == std::endian::little, "GGUF files are little endian and read in place");

constexpr std::uint64_t kMaxNameLength = 65535;  // bytes of a key or tensor name
constexpr std::uint32_t kMaxDimensions = 4;
constexpr int kMaxArrayDepth = 4;                  // arrays in arrays
constexpr std::uint64_t kMaxNestedArrays = 65536;  // in one file
constexpr std::uint64_t kMaxSplits = 99999;        // five digits in the file name
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMaxAlignment = 1u << 20;

// Minimum bytes of each in the file, to bound the counts.
constexpr std::uint64_t kMinString = 8;
constexpr std::uint64_t kMinKeyValue = kMinString + 4 + 1;
constexpr std::uint64_t kMinTensorInfo = kMinString + 4 + 4 + 8;
constexpr std::uint64_t kMinArray = 4 + 8;

std::uint64_t smallest_size(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
      return kMinString;
    case GgufType::kArray:
      return kMinArray;
  }
  return 0;
}

struct TensorInfo {
  std::string_view name;
  DType type;
  Shape shape;
  std::uint64_t offset;  // from the start of the data
};

struct ParsedFile {
  std::uint32_t version = 0;
  GgufMetadata metadata;
  std::vector<TensorInfo> tensors;
  std::uint64_t data_offset = 0;
};

// Reads one file from front to back. `item` is what errors name: the key or tensor being read.
class Parser {
 public:
  explicit Parser(const MappedFile& file) : file_(file) {}

  ParsedFile parse() {
    ParsedFile out;
    parse_header();
    out.version = version_;
    out.metadata = GgufMetadata(file_.path());
    for (std::uint64_t i = 0; i < key_count_; ++i) {
      item_ = "key " + std::to_string(i);
      const std::string_view key = name();
      if (key.empty()) fail("has an empty name");
      item_ = key;
      out.metadata.add(key, value(read_type()));
    }
    parse_alignment(out.metadata);
    // The bytes left after the keys bound the tensors again, before memory is allocated for them.
    item_ = "header";
    check_count(tensor_count_, kMinTensorInfo, "tensors");
    out.tensors.reserve(tensor_count_);
    for (std::uint64_t i = 0; i < tensor_count_; ++i) out.tensors.push_back(parse_tensor(i));
    out.data_offset = (position_ + alignment_ - 1) / alignment_ * alignment_;
    return out;
  }

 private:
  void parse_header() {
    item_ = "header";
    const std::span<const std::byte> magic = take(4);
    if (std::memcmp(magic.data(), "GGUF", 4) != 0) fail("is not a GGUF file");
    version_ = read<std::uint32_t>();
    if (version_ == 0x02000000 || version_ == 0x03000000) fail("is big endian; only little endian is read");
    if (version_ != 2 && version_ != 3) fail("is version " + std::to_string(version_) + "; 2 and 3 are read");
    tensor_count_ = read<std::uint64_t>();
    key_count_ = read<std::uint64_t>();
    check_count(tensor_count_, kMinTensorInfo, "tensors");
    check_count(key_count_, kMinKeyValue, "keys");
  }

  void parse_alignment(const GgufMetadata& metadata) {
    item_ = "general.alignment";
    const std::int64_t alignment = metadata.integer_or(item_, kDefaultAlignment);
    const auto value = static_cast<std::uint64_t>(alignment);
    if (alignment < 1 || !std::has_single_bit(value) || value > kMaxAlignment) {
      fail(std::to_string(alignment) + " is not a power of two up to " + std::to_string(kMaxAlignment));
    }
    alignment_ = value;
  }

  TensorInfo parse_tensor(std::uint64_t i) {
    item_ = "tensor " + std::to_string(i);
    TensorInfo tensor{};
    tensor.name = name();
    if (tensor.name.empty()) fail("has an empty name");
    item_ = tensor.name;
    const auto dimensions = read<std::uint32_t>();
    if (dimensions > kMaxDimensions) fail("has " + std::to_string(dimensions) + " dimensions");
    tensor.shape.resize(dimensions);
    for (std::uint32_t d = 0; d < dimensions; ++d) {  // the file writes the innermost first
      tensor.shape[dimensions - 1 - d] = read<std::uint64_t>();
    }
    const auto type = read<std::uint32_t>();
    const std::optional<DType> known = dtype_of_ggml(type);
    if (!known) fail("has the unknown type " + std::to_string(type));
    tensor.type = *known;
    tensor.offset = read<std::uint64_t>();
    if (tensor.offset % alignment_ != 0) {
      fail("its offset " + std::to_string(tensor.offset) + " is not a multiple of " +
           std::to_string(alignment_));
    }
    return tensor;
  }

  GgufValue value(GgufType type, int depth = 0) {
    GgufValue out;
    out.type = type;
    if (type != GgufType::kArray) {
      fill(out, type, depth);
      return out;
    }
    if (depth >= kMaxArrayDepth) fail("has arrays nested too deeply");
    out.element = read_type();
    out.count = read<std::uint64_t>();
    check_count(out.count, smallest_size(out.element), "elements");
    fill(out, out.element, depth + 1);
    return out;
  }

  // Reads out.count elements of `type`. Requires: the count fits the rest of the file.
  void fill(GgufValue& out, GgufType type, int depth) {
    if (type == GgufType::kString) {
      out.strings.reserve(out.count);
      for (std::uint64_t i = 0; i < out.count; ++i) out.strings.push_back(string());
    } else if (type == GgufType::kArray) {
      nested_arrays_ += out.count;
      if (nested_arrays_ > kMaxNestedArrays) fail("has too many arrays in arrays");
      out.arrays.reserve(out.count);
      for (std::uint64_t i = 0; i < out.count; ++i) out.arrays.push_back(value(GgufType::kArray, depth));
    } else {
      out.bytes = take(out.count * smallest_size(type));
    }
  }

  GgufType read_type() {
    const auto type = static_cast<GgufType>(read<std::uint32_t>());
    if (smallest_size(type) == 0) {
      fail("has the unknown value type " + std::to_string(static_cast<std::uint32_t>(type)));
    }
    return type;
  }

  std::string_view name() {
    const std::string_view text = string();
    if (text.size() > kMaxNameLength) fail("has a name of " + std::to_string(text.size()) + " bytes");
    return text;
  }

  std::string_view string() {
    const std::span<const std::byte> bytes = take(read<std::uint64_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  template <class T>
  T read() {
    T out;
    std::memcpy(&out, take(sizeof(T)).data(), sizeof(T));
    return out;
  }

  std::span<const std::byte> take(std::uint64_t length) {
    if (length > file_.size() - position_) {
      fail("the file ends at byte " + std::to_string(file_.size()) + " where " + std::to_string(length) +
           " more are needed after byte " + std::to_string(position_));
    }
    const auto bytes = file_.bytes().subspan(position_, length);
    position_ += length;
    return bytes;
  }

  void check_count(std::uint64_t count, std::uint64_t smallest, std::string_view what) const {
    const std::uint64_t most = (file_.size() - position_) / smallest;
    if (count > most) {
      fail("claims " + std::to_string(count) + " " + std::string(what) + " where the file has room for " +
           std::to_string(most));
    }
  }

  [[noreturn]] void fail(const std::string& reason) const { throw LoadError(file_.path(), item_, reason); }

  const MappedFile& file_;
  std::uint64_t position_ = 0;
  std::uint32_t version_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t key_count_ = 0;
  std::uint64_t alignment_ = kDefaultAlignment;
  std::uint64_t nested_arrays_ = 0;
  std::string item_;
};

// Maps and parses one file and moves its tensors into the source.
ParsedFile load_file(const std::filesystem::path& path, TensorSource& source) {
  const std::size_t index = source.add_file(MappedFile::open(path));
  ParsedFile parsed = Parser(source.files()[index]).parse();
  for (const TensorInfo& tensor : parsed.tensors) {
    std::uint64_t offset = 0;
    if (__builtin_add_overflow(parsed.data_offset, tensor.offset, &offset)) {
      throw LoadError(path.string(), tensor.name, "its offset is absurd");
    }
    source.add_tensor(std::string(tensor.name), tensor.type, tensor.shape, index, offset);
  }
  return parsed;
}

std::string split_suffix(std::uint64_t number, std::uint64_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05llu-of-%05llu.gguf", static_cast<unsigned long long>(number),
                static_cast<unsigned long long>(count));
  return text;
}

std::uint64_t split_value(const GgufMetadata& metadata, std::string_view key, std::uint64_t most) {
  const std::int64_t value = metadata.integer_or(key, 0);
  if (value < 0 || static_cast<std::uint64_t>(value) > most) {
    throw LoadError(metadata.file(), key, std::to_string(value) + " is out of range");
  }
  return static_cast<std::uint64_t>(value);
}

/// Returns the path without the suffix of the part; `number` and `count` come from the metadata.
std::string stem_of_split(const std::string& path, std::uint64_t number, std::uint64_t count) {
  const std::string suffix = split_suffix(number + 1, count);
  if (!path.ends_with(suffix)) {
    throw LoadError(path, "split.no", "the file's name should end in " + suffix);
  }
  return path.substr(0, path.size() - suffix.size());
}

void load_other_splits(const std::string& stem, std::uint64_t count, TensorSource& source) {
  for (std::uint64_t i = 1; i < count; ++i) {
    const ParsedFile other = load_file(stem + split_suffix(i + 1, count), source);
    if (split_value(other.metadata, "split.count", kMaxSplits) != count) {
      throw LoadError(other.metadata.file(), "split.count", "is not " + std::to_string(count));
    }
    if (split_value(other.metadata, "split.no", kMaxSplits) != i) {
      throw LoadError(other.metadata.file(), "split.no", "is not " + std::to_string(i));
    }
  }
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

Gguf Gguf::open(const std::filesystem::path& path) {
  Gguf out;
  ParsedFile given = load_file(path, out.tensors_);
  const std::uint64_t count = split_value(given.metadata, "split.count", kMaxSplits);
  const std::uint64_t number = split_value(given.metadata, "split.no", kMaxSplits);
  if (count > 1 && number != 0) {  // the first part has the metadata
    return open(stem_of_split(path.string(), number, count) + split_suffix(1, count));
  }
  out.version_ = given.version;
  out.metadata_ = std::move(given.metadata);
  if (count > 1) {
    load_other_splits(stem_of_split(path.string(), 0, count), count, out.tensors_);
    const std::uint64_t tensors =
        split_value(out.metadata_, "split.tensors.count", std::numeric_limits<std::int32_t>::max());
    if (tensors != out.tensors_.tensors().size()) {
      throw LoadError(out.path(), "split.tensors.count",
                      "says " + std::to_string(tensors) + ", the files have " +
                          std::to_string(out.tensors_.tensors().size()));
    }
  }
  out.tensors_.check_no_overlap();
  return out;
}

}  // namespace reprise::models
