#pragma once
// The element types of tensors in model files. `block_size` elements of a row take `block_bytes` bytes; plain
// types have blocks of one. Types with a WeightFormat (gpu/weights/weight.h) can be computed with; the others exist
// to check sizes and to be named in errors.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/weights/weight.h"

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
  kF8E4M3Rows, kInt4,  // in memory only, for quantized tensors (models/files/quantized_tensor.h)
  kCount
};
// clang-format on

struct DTypeInfo {
  std::string_view name;
  std::uint32_t block_size;   // elements
  std::uint32_t block_bytes;  // bytes of one block
};

const DTypeInfo& info(DType type);

/// Returns the WeightFormat of this type, or null if the type cannot be computed with.
const gpu::WeightFormat* format_of(DType type);

/// Returns the type of a GGUF type id; nullopt if the id is unknown or withdrawn.
std::optional<DType> dtype_of_ggml(std::uint32_t id);

/// Returns the GGUF type id; nullopt if GGUF does not have the type.
std::optional<std::uint32_t> ggml_id(DType type);

/// Returns the type of a name in a safetensors header ("BF16"); nullopt if unknown.
std::optional<DType> dtype_of_safetensors(std::string_view name);

/// Dimensions, outermost first, as in Hugging Face files: a linear layer is [out, in], with contiguous rows
/// of `in`.
using Shape = std::vector<std::uint64_t>;

/// "[64, 128]"
std::string to_string(const Shape& shape);

/// Returns the number of elements; nullopt if it does not fit 63 bits.
std::optional<std::uint64_t> element_count(const Shape& shape);

/// Returns the bytes of a row-major tensor; nullopt if the last dimension is not a multiple of the block size
/// or the result does not fit 63 bits.
std::optional<std::uint64_t> byte_size(DType type, const Shape& shape);

/// Returns true if an element of an F32, F16, BF16 or F8_E4M3 tensor is infinite or NaN; false for other
/// types. Reads every page in any case.
bool has_nonfinite(DType type, std::span<const std::byte> bytes);

}  // namespace reprise::models
