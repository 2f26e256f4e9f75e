#pragma once
// Attention over a paged KV cache: norm and RoPE of the heads, append of new keys and values to the pages,
// attention, output gate. gpu/kernels.h (rms_norm, rope, attention, gate_sigmoid) is the specification.
//
// Arithmetic: bf16 rows use bf16 MMA with f32 accumulators; f32 rows are f32 throughout (precise.cu) and may
// have an f32 KV cache. A quantized KV cache (int8, int4) has the CPU's bits and is rounded to bf16 when
// read; a row reads the stored values even for keys of its own slice.
//
// Bits: keys are visited in tiles of 64 anchored at position 0, in ascending order; decode combines splits of
// kDecodeSplit positions in ascending order, so prefill and decode differ. For f32 rows both phases are
// bitwise identical.
//
// Sliding window: keys and values are in a ring of pages in the slot, page n of the sequence at n mod
// ring_pages. A prefill writes those of its own rows to pages in the workspace, so that every row still sees
// the old ring; afterwards it copies the last ones into the ring, and rings as of positions inside the slice
// into exported slots (prepare.cu).

#include <cstddef>

#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"
#include "gpu/state/kv_rows.h"

namespace reprise::gpu::cuda {

struct AttentionShape {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;            // 16, 32, 64, 128 or 256
  int rope_pairs = 0;          // RoPE rotates pairs (i, i + rope_pairs), i < rope_pairs
  float score_multiplier = 1;  // positive: scores are score_multiplier * q k / sqrt(head_dim)
  bool qk_norm = false;
  bool output_gate = false;
  float norm_offset = 0;
  float norm_eps = 1e-6F;
  // Layout of a K or V row (gpu/state/kv_rows.h). Not quantized with a window; f32 only for f32 rows.
  KvType kv = KvType::kBF16;
  std::size_t k_offset = 0;  // bytes in a page: K [kv_heads, kGrid] rows
  std::size_t v_offset = 0;  // bytes in a page: V, same shape
  int window = 0;            // positions that a row attends to, including its own; 0: all
  // With a window: pages of the ring, at least as many as a row's window may touch, and the byte offset of
  // the ring in a slot. A ring page holds only this layer's K and V.
  int ring_pages = 0;
  std::size_t ring_offset = 0;

  int group() const { return heads / kv_heads; }
  /// Bytes of K and V of one token.
  std::size_t token_bytes() const {
    return 2 * static_cast<std::size_t>(kv_heads) * kv_row_bytes(kv, static_cast<std::size_t>(head_dim));
  }
  int q_width() const { return heads * head_dim * (output_gate ? 2 : 1); }
};

template <class Row>
struct AttentionPass {
  // [rows] rows of `stride`: q [heads, head_dim] ([heads, 2, head_dim] with a gate: q, gate), then k and v
  // [kv_heads, head_dim] each
  const Row* projected;
  int stride;
  const float* q_norm;    // [head_dim]; null: no norm of q and k
  const float* k_norm;    // [head_dim]
  const float* rope_cos;  // [rows, rope_pairs]
  const float* rope_sin;
  Row* out;              // [rows, heads * head_dim]
  std::byte* workspace;  // attention_workspace() bytes, aligned to 256
  SlotExports exports{};
};

inline constexpr int kDecodeSplit = 256;

template <class Row = Bf16>
bool attention_supports(const AttentionShape& shape);
/// Returns the workspace bytes to prefill or decode `rows` rows in `tiles` tiles, for sequences of at most
/// `longest` tokens.
template <class Row = Bf16>
std::size_t attention_workspace(const AttentionShape& shape, int rows, int tiles, int longest);

/// Requires: the batch has tiles.
void attention_prefill(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                       StreamHandle stream);
void attention_prefill(const AttentionShape& shape, const Batch& batch, const AttentionPass<float>& pass,
                       StreamHandle stream);
/// Requires: every slice has one row.
void attention_decode(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                      StreamHandle stream);
void attention_decode(const AttentionShape& shape, const Batch& batch, const AttentionPass<float>& pass,
                      StreamHandle stream);

/// RoPE tables: cosine and sine of positions[row] * inv_freq[pair], each times `factor`.
struct RopeRows {
  const std::int32_t* positions = nullptr;  // [rows]
  const float* inv_freq = nullptr;          // [pairs]
  int pairs = 0;
  float factor = 1;
  float* cosine = nullptr;  // [rows, pairs]
  float* sine = nullptr;    // [rows, pairs]
};
void rope_table(const RopeRows& rope, int rows, StreamHandle stream);

#ifdef __CUDACC__
__device__ __forceinline__ void put_rope_entry(const RopeRows& rope, int row, int pair) {
  const float angle = static_cast<float>(rope.positions[row]) * rope.inv_freq[pair];
  const std::size_t at = static_cast<std::size_t>(row) * rope.pairs + pair;
  rope.cosine[at] = cosf(angle) * rope.factor;
  rope.sine[at] = sinf(angle) * rope.factor;
}
#endif

}  // namespace reprise::gpu::cuda
