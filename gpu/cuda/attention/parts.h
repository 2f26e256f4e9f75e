#pragma once
// Internal to the attention sources: workspace layout, the step before attention, dispatch by head size and
// KV type.

#include <cstddef>
#include <type_traits>

#include "base/check.h"
#include "gpu/cuda/attention/attention.h"

namespace reprise::gpu::cuda {

/// Bytes of q in the workspace, which begins with it: Row [rows, heads, head_dim] after norm and RoPE,
/// rounded up to 256 bytes. Partial results of a decode, or the scores of a two-pass prefill, follow.
template <class Row = Bf16>
std::size_t q_bytes(const AttentionShape& shape, int rows) {
  const std::size_t bytes =
      static_cast<std::size_t>(rows) * shape.heads * static_cast<std::size_t>(shape.head_dim) * sizeof(Row);
  return (bytes + 255) / 256 * 256;
}

/// Bytes of the partial results of a split-KV decode.
std::size_t partial_bytes(const AttentionShape& shape, int rows, int longest);

/// Two-pass attention for a prefill with few tiles (two_pass.cu): predicate, workspace bytes after q, and
/// launch, which requires q in the workspace.
bool can_use_two_pass(const AttentionShape& shape, int tile_count, int longest);
std::size_t two_pass_bytes(const AttentionShape& shape, int tile_count, int longest);
void attend_two_pass(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                     StreamHandle stream);

/// wgmma prefill attention (compute capability 9.0, prefill_wgmma.cu), bitwise identical to the other
/// kernels: predicate, and launch, which requires q in the workspace.
bool can_use_wgmma(const AttentionShape& shape);
void attend_by_warpgroups(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                          StreamHandle stream);

/// With a window: workspace bytes after q for the pages of a prefill's own keys and values; their address
/// (null without a window or for decode); the copy of the last ones into the ring.
std::size_t own_pages_bytes(const AttentionShape& shape, int rows, int tile_count);
template <class Row>
std::byte* own_pages(const AttentionShape& shape, const Batch& batch, const AttentionPass<Row>& pass) {
  return shape.window != 0 && batch.tile_count > 0 ? pass.workspace + q_bytes<Row>(shape, batch.rows)
                                                   : nullptr;
}
void keep_window(const AttentionShape& shape, const Batch& batch, const SlotExports& exports,
                 std::byte* prefill_pages, StreamHandle stream);

/// Checks that there is a kernel for the shape and that buffers are aligned for it.
template <class Row>
void check_pass(const AttentionShape& shape, const AttentionPass<Row>& pass);
/// Writes q of all rows after norm and RoPE to the workspace, and their keys and values to the pages. Decodes
/// with few rows do this inside the attention kernel.
template <class Row>
void attention_prepare(const AttentionShape& shape, const Batch& batch, const AttentionPass<Row>& pass,
                       StreamHandle stream);

/// Factor of q k before exp2: the score multiplier times log2(e) / sqrt(head_dim).
float score_scale(const AttentionShape& shape);

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

/// Calls launch(kv, head_dim) with both as compile-time constants. f32 keys and values need f32 rows.
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
