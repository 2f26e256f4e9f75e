#include "models/files/dtype.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "gpu/kernels.h"

namespace reprise::models {
namespace {

struct Row {
  DType type;
  DTypeInfo info;
  std::uint32_t ggml_id;
  std::string_view safetensors_name;  // empty: not a safetensors type

  constexpr Row(DType named, const DTypeInfo& layout, std::uint32_t id, std::string_view safetensors)
      : type(named), info(layout), ggml_id(id), safetensors_name(safetensors) {}
  constexpr Row(DType named, const gpu::WeightFormat& format)
      : Row(named,
            {format.name, static_cast<std::uint32_t>(format.block_size),
             static_cast<std::uint32_t>(format.block_bytes)},
            format.ggml_id, format.safetensors_name) {}
};

// In the order of DType. Block layouts are those of ggml-common.h.
constexpr std::array<Row, static_cast<std::size_t>(DType::kCount)> kTypes = {{
    {DType::kF32, gpu::kF32Format},
    {DType::kF16, gpu::kF16Format},
    {DType::kBF16, gpu::kBF16Format},
    {DType::kF64, {"F64", 1, 8}, 28, "F64"},
    {DType::kI8, {"I8", 1, 1}, 24, "I8"},
    {DType::kI16, {"I16", 1, 2}, 25, "I16"},
    {DType::kI32, {"I32", 1, 4}, 26, "I32"},
    {DType::kI64, {"I64", 1, 8}, 27, "I64"},
    {DType::kU8, {"U8", 1, 1}, gpu::kNoGgmlId, "U8"},
    {DType::kU16, {"U16", 1, 2}, gpu::kNoGgmlId, "U16"},
    {DType::kU32, {"U32", 1, 4}, gpu::kNoGgmlId, "U32"},
    {DType::kU64, {"U64", 1, 8}, gpu::kNoGgmlId, "U64"},
    {DType::kBool, {"BOOL", 1, 1}, gpu::kNoGgmlId, "BOOL"},
    {DType::kF8E4M3, gpu::kF8TileFormat},
    {DType::kF8E5M2, {"F8_E5M2", 1, 1}, gpu::kNoGgmlId, "F8_E5M2"},
    {DType::kF8E8M0, {"F8_E8M0", 1, 1}, gpu::kNoGgmlId, "F8_E8M0"},
    {DType::kF6E2M3, {"F6_E2M3", 4, 3}, gpu::kNoGgmlId, "F6_E2M3"},
    {DType::kF6E3M2, {"F6_E3M2", 4, 3}, gpu::kNoGgmlId, "F6_E3M2"},
    {DType::kF4, {"F4", 2, 1}, gpu::kNoGgmlId, "F4"},
    {DType::kC64, {"C64", 1, 8}, gpu::kNoGgmlId, "C64"},
    {DType::kQ4_0, gpu::kQ4_0Format},
    {DType::kQ4_1, gpu::kQ4_1Format},
    {DType::kQ5_0, gpu::kQ5_0Format},
    {DType::kQ5_1, gpu::kQ5_1Format},
    {DType::kQ8_0, gpu::kQ8_0Format},
    {DType::kQ8_1, {"Q8_1", 32, 36}, 9, ""},
    {DType::kQ2_K, gpu::kQ2_KFormat},
    {DType::kQ3_K, gpu::kQ3_KFormat},
    {DType::kQ4_K, gpu::kQ4_KFormat},
    {DType::kQ5_K, gpu::kQ5_KFormat},
    {DType::kQ6_K, gpu::kQ6_KFormat},
    {DType::kQ8_K, {"Q8_K", 256, 292}, 15, ""},
    {DType::kIQ1_S, {"IQ1_S", 256, 50}, 19, ""},
    {DType::kIQ1_M, {"IQ1_M", 256, 56}, 29, ""},
    {DType::kIQ2_XXS, {"IQ2_XXS", 256, 66}, 16, ""},
    {DType::kIQ2_XS, {"IQ2_XS", 256, 74}, 17, ""},
    {DType::kIQ2_S, {"IQ2_S", 256, 82}, 22, ""},
    {DType::kIQ3_XXS, {"IQ3_XXS", 256, 98}, 18, ""},
    {DType::kIQ3_S, {"IQ3_S", 256, 110}, 21, ""},
    {DType::kIQ4_NL, gpu::kIQ4_NLFormat},
    {DType::kIQ4_XS, gpu::kIQ4_XSFormat},
    {DType::kTQ1_0, {"TQ1_0", 256, 54}, 34, ""},
    {DType::kTQ2_0, {"TQ2_0", 256, 66}, 35, ""},
    {DType::kMXFP4, gpu::kMXFP4Format},
    {DType::kNVFP4, {"NVFP4", 64, 36}, 40, ""},
    {DType::kQ1_0, {"Q1_0", 128, 18}, 41, ""},
    {DType::kQ2_0, {"Q2_0", 64, 18}, 42, ""},
    {DType::kF8E4M3Rows, gpu::kF8RowFormat},
    {DType::kInt4, gpu::kInt4Format},
}};

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (static_cast<std::size_t>(kTypes[i].type) != i) return false;
  }
  return true;
}
static_assert(rows_are_in_order(), "kTypes has its rows in the order of DType");

constexpr bool all_formats_are_types() {
  for (const gpu::WeightFormat* format : gpu::kWeightFormats) {
    bool found = false;
    for (const Row& row : kTypes) found |= row.info.name == format->name;
    if (!found) return false;
  }
  return true;
}
static_assert(all_formats_are_types(), "a weight format has no DType with its row in kTypes");

constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();

bool multiply(std::uint64_t& product, std::uint64_t factor) {
  return !__builtin_mul_overflow(product, factor, &product) && product <= kMax;
}

// Returns true if any element has all bits of its exponent set, i.e. is infinite or NaN.
template <class Word>
bool has_nonfinite(std::span<const std::byte> bytes, Word exponent) {
  Word found = 0;
  for (std::size_t i = 0; i + sizeof(Word) <= bytes.size(); i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + i, sizeof(Word));
    found |= static_cast<Word>((word & exponent) == exponent);
  }
  return found != 0;
}

}  // namespace

const DTypeInfo& info(DType type) {
  REPRISE_CHECK(type < DType::kCount, "the value is not a DType");
  return kTypes[static_cast<std::size_t>(type)].info;
}

const gpu::WeightFormat* format_of(DType type) {
  return gpu::format_named(info(type).name);
}

std::optional<DType> dtype_of_ggml(std::uint32_t id) {
  if (id == gpu::kNoGgmlId) return std::nullopt;
  for (const Row& row : kTypes) {
    if (row.ggml_id == id) return row.type;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> ggml_id(DType type) {
  REPRISE_CHECK(type < DType::kCount, "the value is not a DType");
  const std::uint32_t id = kTypes[static_cast<std::size_t>(type)].ggml_id;
  return id == gpu::kNoGgmlId ? std::nullopt : std::optional(id);
}

std::optional<DType> dtype_of_safetensors(std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (const Row& row : kTypes) {
    if (row.safetensors_name == name) return row.type;
  }
  return std::nullopt;
}

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(shape[i]);
  }
  return out + "]";
}

std::optional<std::uint64_t> element_count(const Shape& shape) {
  std::uint64_t count = 1;
  for (std::uint64_t dimension : shape) {
    if (!multiply(count, dimension)) return std::nullopt;
  }
  return count;
}

std::optional<std::uint64_t> byte_size(DType type, const Shape& shape) {
  const DTypeInfo& layout = info(type);
  const std::uint64_t row = shape.empty() ? 1 : shape.back();
  if (row % layout.block_size != 0) return std::nullopt;
  const std::optional<std::uint64_t> elements = element_count(shape);
  if (!elements) return std::nullopt;
  std::uint64_t bytes = *elements / layout.block_size;
  if (!multiply(bytes, layout.block_bytes)) return std::nullopt;
  return bytes;
}

bool has_nonfinite(DType type, std::span<const std::byte> bytes) {
  switch (type) {
    case DType::kF32:
      return has_nonfinite<std::uint32_t>(bytes, 0x7f800000u);
    case DType::kBF16:
      return has_nonfinite<std::uint16_t>(bytes, 0x7f80u);
    case DType::kF16:
      return has_nonfinite<std::uint16_t>(bytes, 0x7c00u);
    case DType::kF8E4M3: {  // has NaN but no infinities
      bool found = false;
      for (const std::byte element : bytes) found |= (element & std::byte{0x7f}) == std::byte{0x7f};
      return found;
    }
    default:
      break;
  }
  // Read every page anyway, to load the file into memory.
  volatile std::byte sink{};
  for (std::size_t i = 0; i < bytes.size(); i += 4096) sink = bytes[i];
  static_cast<void>(sink);
  return false;
}

}  // namespace reprise::models
