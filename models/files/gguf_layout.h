#pragma once
// What llama.cpp's converter does to a tensor, and how to undo it.
//
// It moves rows or columns about so that its kernels find them where they like, and stores some vectors as
// the kernel uses them: norms with the 1 added, the decay as -exp(A_log).
//
// Undoing the moves is exact. Undoing the +1 is exact for all but tiny weights (under 2^-16, whose low bits
// the converter lost), and adding the 1 again always gives the stored value. A_log is found as the 16-bit
// number whose exponential is the stored value, if there is one (checkpoints are published in bf16);
// otherwise as the nearest float.
//
// Threading: pure functions.

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

  // Along `axis`, behind the first `skip`, the file has [batch][outer][inner][unit] where Hugging Face has
  // [batch][inner][outer][unit].
  Axis axis = Axis::kNone;
  std::size_t skip = 0;
  std::size_t batch = 1;
  std::size_t outer = 1;
  std::size_t inner = 1;
  std::size_t unit = 1;

  /// The file's bytes are Hugging Face's.
  bool is_identity() const { return values == Values::kSame && axis == Axis::kNone; }
};

struct UndoneTensor {
  DType type;
  std::size_t size;                         // bytes
  std::shared_ptr<const std::byte[]> data;  // aligned for every type
};

/// The tensor as Hugging Face has it. `shape` is Hugging Face's; the axis "rows" is its first, "columns" its
/// last. Moving keeps the type, also a block type if whole blocks move; changed values become F32. Throws
/// std::invalid_argument with the reason for what cannot be undone.
UndoneTensor undo(const GgufLayout& layout, DType type, const Shape& shape, std::span<const std::byte> bytes);

/// Whether whole blocks of the type move. Where they do not, columns can only be left where the file has them.
bool can_move(const GgufLayout& layout, DType type);

/// For a layout of columns: which of the model's stands at each place of a row of the file.
std::vector<std::uint32_t> file_columns(const GgufLayout& layout, std::size_t columns);

/// The F32 value of an F16 or BF16 number.
float widen_f16(std::uint16_t bits);
float widen_bf16(std::uint16_t bits);

}  // namespace reprise::models
