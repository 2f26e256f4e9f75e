#pragma once
// Attention over paged keys and values: norms and rope on the heads, the new keys and values into their
// pages, attention of every row over its own sequence, the output gate. gpu/kernels.h (rms_norm, rope,
// attention, gate_sigmoid) is the specification; inside, products are of bf16 with f32 sums. Keys and values in blocks
// are stored with the CPU's bits, and rounded to bf16 when they are read: a row looks at what is stored, also of its own
// slice. Of rows of f32 all of it is in f32 (gpu/cuda/attention_precise.cu), and keys and values may be f32, too.
//
// Exactness: as gpu/cuda/batch.h. Keys are taken in tiles of 64 anchored at position 0, ascending; a decoded
// row's in splits of kDecodeSplit positions, combined in ascending order. Of rows of f32 one order serves prefilled and
// decoded ones: their bits are the same.
//
// With a window a row looks at the last positions alone, and keys and values stand in a ring of pages in the slot, page n
// of the sequence at n mod ring_pages. Those of a prefill's own rows stand in the workspace until all have looked at them,
// in pages like the ring's; then the last ones go into the ring (gpu/cuda/attention_prepare.cu), and
// rings as they were inside a slice into those of the slots that want them.
//
// Threading: launches into `stream`; no other state.

#include <cstddef>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/stream.h"
#include "gpu/kv_rows.h"

namespace reprise::gpu::cuda {

struct AttentionShape {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;    // 16, 32, 64, 128 or 256
  int rope_pairs = 0;  // pairs (i, i + rope_pairs) of the leading 2 * rope_pairs elements of a head turn
  float score_multiplier = 1;  // positive: scores are multiplier * q k / sqrt(head_dim)
  bool qk_norm = false;
  bool output_gate = false;
  float norm_offset = 0;
  float norm_eps = 1e-6F;
  // How a row of K or V lies (gpu/kv_rows.h). With a window not in blocks; f32 for rows of f32 alone.
  KvType kv = KvType::kBF16;
  std::size_t k_offset = 0;  // in a page: K [kv_heads, kGrid] of rows
  std::size_t v_offset = 0;  // in a page: V, likewise
  int window = 0;            // positions that a row looks at, its own the last; 0: all
  // With a window: pages of the ring, at least as many as it may touch, and where the ring begins in a slot. Its pages
  // are K, then V, and nothing else.
  int ring_pages = 0;
  std::size_t ring_offset = 0;

  int group() const { return heads / kv_heads; }
  /// K and V of one token.
  std::size_t token_bytes() const {
    return 2 * static_cast<std::size_t>(kv_heads) * kv_row_bytes(kv, static_cast<std::size_t>(head_dim));
  }
  int q_width() const { return heads * head_dim * (output_gate ? 2 : 1); }
};

/// Row: Bf16 or float, what rows of activations are of.
template <class Row>
struct AttentionPass {
  const Row* projected;  // [rows] rows of `stride`: q [heads, head_dim] ([heads, 2, head_dim]: q, gate),
                         // k [kv_heads, head_dim], v [kv_heads, head_dim]
  int stride;
  const float* q_norm;    // [head_dim]; null without qk_norm
  const float* k_norm;    // [head_dim]
  const float* rope_cos;  // [rows, rope_pairs]
  const float* rope_sin;
  Row* out;               // [rows, heads * head_dim]
  std::byte* workspace;   // attention_workspace() bytes, aligned to 256
  SlotExports exports{};  // of a prefill with a window
};

inline constexpr int kDecodeSplit = 256;

/// For rows of that kind.
template <class Row = Bf16>
bool attention_supports(const AttentionShape& shape);
/// Enough for prefill and decode of so many rows in so many tiles, none longer than `longest` tokens.
template <class Row = Bf16>
std::size_t attention_workspace(const AttentionShape& shape, int rows, int tiles, int longest);

/// Of a batch with tiles.
void attention_prefill(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                       StreamHandle stream);
void attention_prefill(const AttentionShape& shape, const Batch& batch, const AttentionPass<float>& pass,
                       StreamHandle stream);
/// Of a batch whose slices have one row each.
void attention_decode(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                      StreamHandle stream);
void attention_decode(const AttentionShape& shape, const Batch& batch, const AttentionPass<float>& pass,
                      StreamHandle stream);

/// Cosine and sine of positions[row] * inv_freq[pair], times `factor`.
struct RopeRows {
  const std::int32_t* positions = nullptr;  // [rows]
  const float* inv_freq = nullptr;          // [pairs]
  int pairs = 0;
  float factor = 1;
  float* cosine = nullptr;  // [rows, pairs]
  float* sine = nullptr;    // the same
};
void rope_table(const RopeRows& rope, int rows, StreamHandle stream);

#ifdef __CUDACC__
/// Puts the element of `row` and `pair` into rope's table.
__device__ __forceinline__ void put_turn(const RopeRows& rope, int row, int pair) {
  const float angle = static_cast<float>(rope.positions[row]) * rope.inv_freq[pair];
  const std::size_t at = static_cast<std::size_t>(row) * rope.pairs + pair;
  rope.cosine[at] = cosf(angle) * rope.factor;
  rope.sine[at] = sinf(angle) * rope.factor;
}
#endif

}  // namespace reprise::gpu::cuda
