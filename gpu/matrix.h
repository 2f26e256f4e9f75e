#pragma once
// A weight matrix as a checkpoint stores it: rows of `columns` contiguous elements, one row an output.
//
// A view: the checkpoint owns the bytes. Aligned for its element type.

#include <cstddef>
#include <cstdint>

namespace reprise::gpu {

enum class ElementType : std::uint8_t { kF32, kF16, kBF16 };

inline std::size_t size_of(ElementType type) {
  return type == ElementType::kF32 ? 4 : 2;
}

struct Matrix {
  ElementType type = ElementType::kF32;
  std::size_t rows = 0;
  std::size_t columns = 0;
  const void* data = nullptr;

  std::size_t bytes() const { return rows * columns * size_of(type); }
};

}  // namespace reprise::gpu
