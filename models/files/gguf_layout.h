#pragma once
// Describes and undoes the changes that llama.cpp's converter makes to a tensor: it permutes rows or columns
// for its kernels, and stores some vectors as the kernels use them (norms plus 1, the decay as -exp(A_log)).
//
// Undoing a permutation is exact. Undoing the +1 is exact except for weights under 2^-16, whose low bits the
// converter lost; adding the 1 again always gives the stored value. A_log becomes the 16-bit float whose
// exponential is the stored value, if there is one (models are published in bf16), else the nearest f32.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/files/dtype.h"

namespace reprise::models {

struct GgufLayout {
  enum class Values : std::uint8_t { kSame, kPlusOne, kNegativeExp };
  enum class Axis : std::uint8_t { kNone, kRows, kColumns };

  Values values = Values::kSame;

  // Along `axis`, after the first `skip` elements, the file has [batch][outer][inner][unit] where Hugging
  // Face has [batch][inner][outer][unit].
  Axis axis = Axis::kNone;
  std::size_t skip = 0;
  std::size_t batch = 1;
  std::size_t outer = 1;
  std::size_t inner = 1;
  std::size_t unit = 1;

  /// True if the file has the bytes of the Hugging Face tensor.
  bool is_identity() const { return values == Values::kSame && axis == Axis::kNone; }
};

struct UndoneTensor {
  DType type;
  std::size_t size;                         // bytes
  std::shared_ptr<const std::byte[]> data;  // aligned for every type
};

/// Returns the tensor in Hugging Face's layout. `shape` is Hugging Face's; the axis kRows is its first
/// dimension, kColumns its last. A permutation keeps the type, including block types if whole blocks move;
/// changed values become F32. Throws std::invalid_argument with the reason if the layout cannot be undone.
UndoneTensor undo(const GgufLayout& layout, DType type, const Shape& shape, std::span<const std::byte> bytes);

/// Returns true if the layout moves whole blocks of the type. If not, columns stay in the file's order.
bool can_move(const GgufLayout& layout, DType type);

/// For a layout of columns: returns, for each column of the file, the index of the model's column.
std::vector<std::uint32_t> file_columns(const GgufLayout& layout, std::size_t columns);

float widen_f16(std::uint16_t bits);
float widen_bf16(std::uint16_t bits);

}  // namespace reprise::models
