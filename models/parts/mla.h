#pragma once
// Multi-head latent attention, as a model describes it: keys and values of all heads are products of one short latent
// of the token, so that only the latent is kept.
//
//   q = q_proj(x), or q_b_proj(norm(q_a_proj(x)));  of each head: [plain, turned]
//   latent, turned = kv_a_proj_with_mqa(x);  latent = norm(latent) * latent_scale
//   k of a head = [its rows of kv_b_proj times latent, turned];  v of a head = its other rows times latent
//   y = o_proj(softmax(q k^T score_scale) v)
//
// The turned parts are rotated by their positions, or left as they are where there is no rope.
//
// Tensors: `name`.q_proj [heads * key_dim, hidden], or q_a_proj [q_rank, hidden], q_a_layernorm [q_rank] and q_b_proj
// [heads * key_dim, q_rank]; kv_a_proj_with_mqa [rank + turned_dim, hidden], kv_a_layernorm [rank], kv_b_proj [heads *
// (plain_dim + value_dim), rank], of each head first the keys; o_proj [hidden, heads * value_dim].
// State of a token: the latent behind its norm and scale and the turned part behind its rope, [kPageTokens, rank +
// turned_dim] in a page.

#include <cstddef>
#include <memory>
#include <string>

#include "gpu/compute.h"
#include "models/parts/part.h"
#include "models/parts/rope.h"

namespace reprise::models {

struct MlaSpec {
  std::string name{};  // before ".kv_b_proj"
  std::size_t hidden = 0;
  std::size_t heads = 0;
  std::size_t plain_dim = 0;   // of a key, and of a query
  std::size_t turned_dim = 0;  // of a key, the same for all heads, and of a query
  std::size_t value_dim = 0;   // of a head
  std::size_t rank = 0;        // of the latent
  std::size_t q_rank = 0;      // 0: queries have none
  NormKind norm{};             // of the latents
  bool bias = false;           // on q_a_proj, kv_a_proj_with_mqa and o_proj
  float score_scale = 1;
  float latent_scale = 1;
  /// Of the turned parts; null: positions do not matter.
  std::shared_ptr<const RopeConfig> rope{};
  bool rope_of_neighbours = false;  // pairs are elements 2 i and 2 i + 1, not i and i + half

  std::size_t key_dim() const { return plain_dim + turned_dim; }
  std::size_t stored_dim() const { return rank + turned_dim; }  // of a token

  bool operator==(const MlaSpec& other) const;
};

/// `block` is what llama.cpp puts before the names of the layer: "blk.3".
void add_tensors(TensorList& tensors, const MlaSpec& mla, const std::string& block);

/// Where a page has what is kept of its tokens.
std::size_t declare_state(const MlaSpec& mla, gpu::KvType kv, StateLayout& state);

/// How it keeps what is kept as `kv` elsewhere: what it stores is compressed already, and all heads look at it, so that it
/// is not rounded further.
inline gpu::KvType kv_of(const MlaSpec&, gpu::KvType kv) {
  return gpu::is_quantised(kv) ? gpu::KvType::kBF16 : kv;
}

std::optional<std::string> gpu_refusal(const MlaSpec& mla);
PartSizes describe(const MlaSpec& mla);

}  // namespace reprise::models
