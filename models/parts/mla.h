#pragma once
// Multi-head latent attention (MLA): keys and values of all heads are projections of one short latent per
// token, and only the latent is cached.
//
//   q = q_proj(x), or q_b_proj(norm(q_a_proj(x)));  per head: [plain, rotated]
//   latent, rotated = kv_a_proj_with_mqa(x);  latent = norm(latent) * latent_scale
//   k of a head = [kv_b_proj (its key rows) latent, rotated];  v of a head = kv_b_proj (its value rows)
//   latent
//   y = o_proj(softmax(q k^T score_scale) v)
//
// RoPE applies to the rotated part, unless `rope` is null.
//
// Tensors: `name`.q_proj [heads * key_dim, hidden], or q_a_proj [q_rank, hidden], q_a_layernorm [q_rank] and
// q_b_proj [heads * key_dim, q_rank]; kv_a_proj_with_mqa [rank + rotary_dim, hidden], kv_a_layernorm [rank],
// kv_b_proj [heads * (plain_dim + value_dim), rank], per head first the keys; o_proj [hidden, heads *
// value_dim].
// State per token: the latent after norm and scale, and the rotated part after RoPE, [kPageTokens, rank +
// rotary_dim] in a page.

#include <cstddef>
#include <memory>
#include <string>

#include "gpu/compute.h"
#include "models/parts/part.h"
#include "models/parts/rope.h"

namespace reprise::models {

struct MlaSpec {
  std::string name{};
  std::size_t hidden = 0;
  std::size_t heads = 0;
  std::size_t plain_dim = 0;   // elements of a key or query without RoPE
  std::size_t rotary_dim = 0;  // elements with RoPE; the key's are shared by all heads
  std::size_t value_dim = 0;   // elements of a head's value
  std::size_t rank = 0;        // elements of the KV latent
  std::size_t q_rank = 0;      // elements of the query latent; 0: none
  NormKind norm{};             // of both latents
  bool bias = false;           // on q_a_proj, kv_a_proj_with_mqa and o_proj
  float score_scale = 1;
  float latent_scale = 1;
  /// RoPE of the rotated parts; null: no position encoding.
  std::shared_ptr<const RopeConfig> rope{};
  bool rope_of_neighbors = false;  // pairs are elements 2 i and 2 i + 1, not i and i + half

  std::size_t key_dim() const { return plain_dim + rotary_dim; }
  std::size_t stored_dim() const { return rank + rotary_dim; }  // cached elements per token

  bool operator==(const MlaSpec& other) const;
};

void add_tensors(TensorList& tensors, const MlaSpec& mla, const std::string& block);

/// Returns the offset in a page of the cached rows.
std::size_t declare_state(const MlaSpec& mla, gpu::KvType kv, StateLayout& state);

/// The type of cached rows if `kv` is used elsewhere: quantized types become bf16, since the latent is
/// compressed already and all heads use it.
inline gpu::KvType kv_of(const MlaSpec&, gpu::KvType kv) {
  return gpu::is_quantized(kv) ? gpu::KvType::kBF16 : kv;
}

std::optional<std::string> gpu_refusal(const MlaSpec& mla);
PartSizes describe(const MlaSpec& mla);

}  // namespace reprise::models
