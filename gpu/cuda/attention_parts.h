#pragma once
// What the sources of attention share on the host: the parts of the workspace, the step before attention, and
// the choice of a kernel by the size of a head and by how its keys and values are kept. Not for others.

#include <cstddef>
#include <type_traits>

#include "base/check.h"
#include "gpu/cuda/attention.h"

namespace reprise::gpu::cuda {

/// A workspace begins with q of all rows, [rows, heads, head_dim] of Row, normalised and turned, if they are prepared. Behind
/// it, at the next multiple of 256 bytes, stand the partial results of decoding, or the scores of few prefilled tiles.
template <class Row = Bf16>
std::size_t q_bytes(const AttentionShape& shape, int rows) {
  const std::size_t bytes =
      static_cast<std::size_t>(rows) * shape.heads * static_cast<std::size_t>(shape.head_dim) * sizeof(Row);
  return (bytes + 255) / 256 * 256;
}

/// Bytes for the partial results of decoding.
std::size_t partial_bytes(const AttentionShape& shape, int rows, int longest);

/// Attention of a prefill with so few tiles that they would not keep the GPU busy (gpu/cuda/attention_few.cu): whether it
/// is one, bytes behind q in the workspace, and the launch. q must be there.
bool suits_few_tiles(const AttentionShape& shape, int tile_count, int longest);
std::size_t few_tiles_bytes(const AttentionShape& shape, int tile_count, int longest);
void attend_few_tiles(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                      StreamHandle stream);

/// Attention of prefilled tiles by the instructions of compute capability 9.0 (gpu/cuda/attention_warpgroup.cu), with the bits of
/// the other kernels: whether there is such a kernel for the shape on the current GPU, and its launch. q must be there.
bool suits_warpgroups(const AttentionShape& shape);
void attend_by_warpgroups(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                          StreamHandle stream);

/// With a window: bytes behind q in the workspace for the keys and values of a prefill's rows, where they stand (null where
/// there is no such thing), and their way into the ring.
std::size_t made_pages_bytes(const AttentionShape& shape, int rows, int tile_count);
template <class Row>
std::byte* made_pages(const AttentionShape& shape, const Batch& batch, const AttentionPass<Row>& pass) {
  return shape.window != 0 && batch.tile_count > 0 ? pass.workspace + q_bytes<Row>(shape, batch.rows)
                                                   : nullptr;
}
void keep_window(const AttentionShape& shape, const Batch& batch, const SlotExports& exports, std::byte* made,
                 StreamHandle stream);

/// That there is a kernel for the shape, and that memory is aligned for it.
template <class Row>
void check_pass(const AttentionShape& shape, const AttentionPass<Row>& pass);
/// q of all rows into the workspace, their keys and values into the pages. Few decoded rows do without.
template <class Row>
void attention_prepare(const AttentionShape& shape, const Batch& batch, const AttentionPass<Row>& pass,
                       StreamHandle stream);

/// What a kernel multiplies scores with before it takes powers of two.
float score_scale(const AttentionShape& shape);

/// Calls `launch` with head_dim as a compile-time constant.
template <class Launch>
void with_head_dim(int head_dim, const Launch& launch) {
  switch (head_dim) {
    case 16:
      return launch(std::integral_constant<int, 16>());
    case 32:
      return launch(std::integral_constant<int, 32>());
    case 64:
      return launch(std::integral_constant<int, 64>());
    case 128:
      return launch(std::integral_constant<int, 128>());
    case 256:
      return launch(std::integral_constant<int, 256>());
    default:
      REPRISE_CHECK(false, "attention has no kernel for this head size");
  }
}

/// Likewise with what the shape says of keys and values: launch(kv, head_dim). f32 is for rows of f32 alone.
template <class Row = Bf16, class Launch>
void with_rows(const AttentionShape& shape, const Launch& launch) {
  with_head_dim(shape.head_dim, [&](auto dim) {
    switch (shape.kv) {
      case KvType::kBF16:
        return launch(std::integral_constant<KvType, KvType::kBF16>(), dim);
      case KvType::kInt8:
        return launch(std::integral_constant<KvType, KvType::kInt8>(), dim);
      case KvType::kInt4:
        return launch(std::integral_constant<KvType, KvType::kInt4>(), dim);
      case KvType::kF32:
        if constexpr (std::is_same_v<Row, float>) {
          return launch(std::integral_constant<KvType, KvType::kF32>(), dim);
        }
        break;
    }
    REPRISE_CHECK(false, "attention has no kernel for this type of keys and values");
  });
}

}  // namespace reprise::gpu::cuda
