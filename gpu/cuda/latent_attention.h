#pragma once
// Multi-head latent attention over paged latents: queries, as latents are compared with them, against the rows of a page,
// of which the weighted sum is taken. models/parts/mla.h is what it is of, gpu/kernels.h (rms_norm, rope, attention
// with one key/value head for all heads) the specification; inside, products are of bf16 with f32 sums; of rows of
// f32 all of it is in f32. The heads' matrices before and behind it are gpu/cuda/small_products.h.
//
// Exactness: as gpu/cuda/batch.h. Keys are taken in steps of 32 anchored at position 0, ascending; a decoded row's in
// splits of kDecodeSplit positions, combined in ascending order. Of rows of f32 one order serves prefilled and decoded ones.
//
// Threading: launches into `stream`; no other state.

#include <cstddef>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/stream.h"
#include "gpu/kv_rows.h"

namespace reprise::gpu::cuda {

struct LatentShape {
  int heads = 0;
  int plain_dim = 0;        // of a query
  int turned_dim = 0;       // of a query behind it, and of a token behind its latent
  int rank = 0;             // of a latent; even
  int rope_pairs = 0;       // of the turned part; 0: it stays as it is
  bool neighbours = false;  // pairs are elements 2 i and 2 i + 1, and their halves are put apart
  float score_scale = 1;    // positive
  float norm_offset = 0;    // of the latents' norm
  float norm_eps = 1e-6F;
  KvType kv = KvType::kBF16;  // of what is stored; or f32, for rows of f32 alone
  std::size_t offset = 0;     // in a page: [kGrid, stored()]

  int stored() const { return rank + turned_dim; }  // a multiple of 8
  /// Of a query that latents are compared with, zeros behind stored().
  int compared() const { return (stored() + 15) / 16 * 16; }
};

/// Row: Bf16 or float, what rows of activations are of.
template <class Row>
struct LatentPass {
  const Row* queries;  // [rows] rows of `query_stride`: [heads, plain_dim + turned_dim]
  int query_stride;
  const float* made;  // [rows] rows of `made_stride`: latent [rank] before its norm, turned part
  int made_stride;
  const float* norm;      // [rank]
  const float* rope_cos;  // [rows, rope_pairs]
  const float* rope_sin;
  Row* compared;  // [rows, heads, compared()]: the first `rank` of each are there, the rest is made here
  Row* out;       // [rows, heads, rank]: sums of latents
  std::byte* workspace;  // latent_workspace() bytes, aligned to 256
};

/// For rows of that kind.
template <class Row = Bf16>
bool latent_supports(const LatentShape& shape);
/// Enough for prefill and decode of so many rows in so many tiles, none longer than `longest` tokens.
template <class Row = Bf16>
std::size_t latent_workspace(const LatentShape& shape, int rows, int tiles, int longest);

/// Of a batch with tiles, or of one whose slices have one row each.
void latent_attention(const LatentShape& shape, const Batch& batch, const LatentPass<Bf16>& pass,
                      StreamHandle stream);
void latent_attention(const LatentShape& shape, const Batch& batch, const LatentPass<float>& pass,
                      StreamHandle stream);

}  // namespace reprise::gpu::cuda
