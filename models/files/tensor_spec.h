#pragma once
// Describes a tensor of a model, and how GGUF and Hugging Face files store it.
//
// Canonical names and layouts are Hugging Face's, without the prefix of the text model:
// "embed_tokens.weight", "layers.3.linear_attn.in_proj_qkv.weight", "norm.weight", "lm_head.weight". A
// canonical tensor is one matrix or vector. A file may have it unchanged, changed (a GgufLayout, which is
// undone), or as a piece of a larger tensor: fused with others, contiguous or in row blocks, or stacked, such
// as an expert of a layer.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/files/dtype.h"
#include "models/files/gguf_layout.h"

namespace reprise::models {

/// `times` blocks of `rows` rows from first_row, with a distance of `stride` rows.
struct RowBlocks {
  std::size_t first_row = 0;
  std::size_t rows = 0;
  std::size_t stride = 0;
  std::size_t times = 1;
};

/// Rows of a stored tensor, counted over all dimensions but the last: expert e of [experts, rows, columns]
/// begins at row e * rows.
struct TensorPiece {
  Shape of;  // shape of the stored tensor
  std::size_t first_row = 0;
  std::vector<RowBlocks> blocks{};  // concatenated; empty: consecutive rows from first_row
};

/// Returns the product of all dimensions but the last.
std::size_t rows_of(const Shape& shape);

/// Returns the bytes of a piece of `rows` rows, in order. `stored`: the bytes of the whole stored tensor.
std::vector<std::span<const std::byte>> bytes_of(const TensorPiece& piece, std::size_t rows,
                                                 std::span<const std::byte> stored);

struct StoredAs {
  std::vector<std::string> names{};    // alternatives; the first that exists is used
  std::optional<TensorPiece> piece{};  // nullopt: the whole stored tensor
  GgufLayout layout{};                 // the converter's changes
  Shape shape{};                       // stored shape of the same elements; empty: the tensor's own
};

struct TensorSpec {
  std::string name;
  Shape shape;
  StoredAs gguf{};
  StoredAs hf{};  // names without the prefix of the text model; empty: `name`
  // Alternative layouts, if the above is absent; the first that exists is used.
  std::vector<StoredAs> gguf_else{};
  std::vector<StoredAs> hf_else{};
  bool may_be_missing = false;  // e.g. a bias that only some converters write
};

}  // namespace reprise::models
