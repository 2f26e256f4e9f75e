#pragma once
// Multi-head latent attention (MLA) over a paged cache of latents: RoPE, norm and storage of new latents, and
// attention in which all heads share the cached rows as one KV head. models/parts/mla.h defines the
// layer, gpu/kernels.h (rms_norm, rope, attention) is the specification. bf16 rows use bf16 MMA with f32
// accumulators; f32 rows are f32 throughout. gemm/small_products.h has the per-head projections.
//
// Bits: keys are visited in steps of 32 anchored at position 0, in ascending order; decode combines splits of
// kDecodeSplit positions in ascending order. For f32 rows prefill and decode use one order.

#include <cstddef>

#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"
#include "gpu/state/kv_rows.h"

namespace reprise::gpu::cuda {

struct LatentShape {
  int heads = 0;
  int plain_dim = 0;       // elements of a query's part without RoPE
  int rotary_dim = 0;      // with RoPE: of a query after plain_dim, of a token after its latent
  int rank = 0;            // elements of a latent; even
  int rope_pairs = 0;      // 0: no RoPE
  bool neighbors = false;  // RoPE pairs are elements 2 i and 2 i + 1; the result is stored de-interleaved
  float score_scale = 1;   // positive: factor of q k
  float norm_offset = 0;   // of the norm of latents
  float norm_eps = 1e-6F;
  KvType kv = KvType::kBF16;  // cache type; f32 only for f32 rows
  std::size_t offset = 0;     // bytes in a page: [kGrid, stored()]

  int stored() const { return rank + rotary_dim; }  // a multiple of 8
  /// Elements of a query in latent space: stored(), padded to a multiple of 16.
  int compared() const { return (stored() + 15) / 16 * 16; }
};

template <class Row>
struct LatentPass {
  const Row* queries;  // [rows] rows of `query_stride`: [heads, plain_dim + rotary_dim]
  int query_stride;
  const float* made;  // [rows] rows of `made_stride`: latent [rank] before its norm, then the RoPE part
  int made_stride;
  const float* norm;      // [rank]
  const float* rope_cos;  // [rows, rope_pairs]
  const float* rope_sin;
  // [rows, heads, compared()]: the caller fills the first `rank` elements of each, the kernel the rest
  Row* compared;
  Row* out;              // [rows, heads, rank]: weighted sums of latents
  std::byte* workspace;  // latent_workspace() bytes, aligned to 256
};

template <class Row = Bf16>
bool latent_supports(const LatentShape& shape);
/// Returns the workspace bytes to prefill or decode `rows` rows in `tiles` tiles, for sequences of at most
/// `longest` tokens.
template <class Row = Bf16>
std::size_t latent_workspace(const LatentShape& shape, int rows, int tiles, int longest);

/// Requires: the batch has tiles, or every slice has one row.
void latent_attention(const LatentShape& shape, const Batch& batch, const LatentPass<Bf16>& pass,
                      StreamHandle stream);
void latent_attention(const LatentShape& shape, const Batch& batch, const LatentPass<float>& pass,
                      StreamHandle stream);

}  // namespace reprise::gpu::cuda
