#pragma once
// A tensor that a model consists of, and where the two formats keep it.
//
// Canonical names and layouts are Hugging Face's, without the prefix of the text model:
// "embed_tokens.weight", "layers.3.linear_attn.in_proj_qkv.weight", "norm.weight", "lm_head.weight". One
// canonical tensor is one matrix or vector. A file may have it one to one, changed (a GgufLayout, which is
// undone), or as a piece of a larger tensor: one of several that were fused, in one run or row block by row
// block, or one of many that were stacked, such as an expert of a layer.
//
// Threading: plain values, pure functions.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/files/dtype.h"
#include "models/files/gguf_layout.h"

namespace reprise::models {

/// Rows that stand apart at equal distances: `times` blocks of `rows`, each `stride` behind the one before.
struct RowBlocks {
  std::size_t first_row = 0;
  std::size_t rows = 0;
  std::size_t stride = 0;
  std::size_t times = 1;
};

/// Rows of a stored tensor, counted over all its dimensions but the last: expert e of [experts, rows, columns]
/// begins at row e * rows.
struct TensorPiece {
  Shape of;  // what is stored
  std::size_t first_row = 0;
  std::vector<RowBlocks> blocks{};  // one behind the other; none: consecutive rows from first_row
};

/// All dimensions but the last.
std::size_t rows_of(const Shape& shape);

/// The bytes of a piece of `rows` rows, as they follow each other in it. `stored`: of all rows of what is stored.
std::vector<std::span<const std::byte>> bytes_of(const TensorPiece& piece, std::size_t rows,
                                                 std::span<const std::byte> stored);

struct StoredAs {
  std::vector<std::string> names{};    // the first that is there counts
  std::optional<TensorPiece> piece{};  // none: the whole of what is stored
  GgufLayout layout{};                 // what was done to it on the way
  Shape shape{};                       // the same elements in another shape; empty: the tensor's own
};

struct TensorSpec {
  std::string name;
  Shape shape;
  StoredAs gguf{};
  StoredAs hf{};  // names behind the prefix of the text model; none: its own
  // Other layouts that files have: the first of them that is there counts, where the above is not.
  std::vector<StoredAs> gguf_else{};
  std::vector<StoredAs> hf_else{};
  bool may_be_missing = false;  // a bias that only some writers of such files have
};

}  // namespace reprise::models
