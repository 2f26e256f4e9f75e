#pragma once
// The element types that checkpoints store, with the size of each.
//
// A type comes in blocks: `block_size` elements of a row take `block_bytes` bytes. Plain types have blocks of
// one. Those that a device's table of formats has (gpu/weight.h) can be computed with; the others are known so
// that sizes can be checked and errors can name them.
//
// Threading: pure functions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/weight.h"

namespace reprise::models {

// clang-format off
enum class DType : std::uint8_t {
  kF32, kF16, kBF16, kF64,
  kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kBool,
  kF8E4M3, kF8E5M2, kF8E8M0, kF6E2M3, kF6E3M2, kF4, kC64,
  kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ8_1,
  kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K, kQ8_K,
  kIQ1_S, kIQ1_M, kIQ2_XXS, kIQ2_XS, kIQ2_S, kIQ3_XXS, kIQ3_S, kIQ4_NL, kIQ4_XS,
  kTQ1_0, kTQ2_0, kMXFP4, kNVFP4, kQ1_0, kQ2_0,
  kF8E4M3Rows, kInt4,  // in no file: what quantised tensors are kept as (models/files/quantised_tensor.h)
  kCount
};
// clang-format on

struct DTypeInfo {
  std::string_view name;
  std::uint32_t block_size;   // elements
  std::uint32_t block_bytes;  // bytes of one block
};

const DTypeInfo& info(DType type);

/// The format of weights of this type: the one of the same name. Null: the type cannot be computed with.
const gpu::WeightFormat* format_of(DType type);

/// The type with this id in a GGUF file; nothing for an unknown or withdrawn id.
std::optional<DType> dtype_of_ggml(std::uint32_t id);

/// The other way; nothing for a type that GGUF files do not have.
std::optional<std::uint32_t> ggml_id(DType type);

/// The type with this name in a safetensors header ("BF16"); nothing for an unknown name.
std::optional<DType> dtype_of_safetensors(std::string_view name);

/// Outermost dimension first, as Hugging Face writes it: a linear layer is [out, in], rows of `in`
/// contiguous.
using Shape = std::vector<std::uint64_t>;

/// "[64, 128]"
std::string to_string(const Shape& shape);

/// Number of elements; nothing if it does not fit 63 bits.
std::optional<std::uint64_t> element_count(const Shape& shape);

/// Bytes of a row-major tensor; nothing if the last dimension is not whole blocks or the size does not fit 63
/// bits.
std::optional<std::uint64_t> byte_size(DType type, const Shape& shape);

/// Whether an element is infinite or not a number. Reads every page; of block types it judges nothing.
bool has_nonfinite(DType type, std::span<const std::byte> bytes);

}  // namespace reprise::models
