#include "models/files/tensor_spec.h"

#include "base/check.h"

namespace reprise::models {

std::size_t rows_of(const Shape& shape) {
  std::size_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

std::vector<std::span<const std::byte>> bytes_of(const TensorPiece& piece, std::size_t rows,
                                                 std::span<const std::byte> stored) {
  const std::size_t stored_rows = rows_of(piece.of);
  const std::size_t row_bytes = stored.size() / stored_rows;
  std::vector<RowBlocks> blocks = piece.blocks;
  if (blocks.empty()) blocks.push_back({.first_row = piece.first_row, .rows = rows});
  std::vector<std::span<const std::byte>> out;
  std::size_t total = 0;
  for (const RowBlocks& block : blocks) {
    for (std::size_t i = 0; i < block.times; ++i) {
      const std::size_t first = block.first_row + i * block.stride;
      REPRISE_CHECK(first + block.rows <= stored_rows, "a part of a tensor ends after the tensor");
      out.push_back(stored.subspan(first * row_bytes, block.rows * row_bytes));
      total += block.rows;
    }
  }
  REPRISE_CHECK(total == rows, "the parts of a tensor do not have its number of rows");
  return out;
}

}  // namespace reprise::models
