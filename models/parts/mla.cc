#include "models/parts/mla.h"

#include <tuple>

#include "gpu/gpu_limits.h"
#include "gpu/state/kv_rows.h"

namespace reprise::models {

bool MlaSpec::operator==(const MlaSpec& other) const {
  const auto plain = [](const MlaSpec& a) {
    return std::tie(a.name, a.hidden, a.heads, a.plain_dim, a.rotary_dim, a.value_dim, a.rank, a.q_rank,
                    a.norm, a.bias, a.score_scale, a.latent_scale, a.rope_of_neighbors);
  };
  const bool same_rope = rope && other.rope ? *rope == *other.rope : rope == other.rope;
  return same_rope && plain(*this) == plain(other);
}

void add_tensors(TensorList& tensors, const MlaSpec& a, const std::string& block) {
  if (a.q_rank == 0) {
    tensors.add_linear(a.name + ".q_proj", a.heads * a.key_dim(), a.hidden, block + ".attn_q");
  } else {
    tensors.add_linear(a.name + ".q_a_proj", a.q_rank, a.hidden, block + ".attn_q_a", a.bias);
    tensors.add_norm({a.name + ".q_a_layernorm", a.q_rank, a.norm}, block + ".attn_q_a_norm");
    tensors.add_linear(a.name + ".q_b_proj", a.heads * a.key_dim(), a.q_rank, block + ".attn_q_b");
  }
  tensors.add_linear(a.name + ".kv_a_proj_with_mqa", a.stored_dim(), a.hidden, block + ".attn_kv_a_mqa",
                     a.bias);
  tensors.add_norm({a.name + ".kv_a_layernorm", a.rank, a.norm}, block + ".attn_kv_a_norm");
  tensors.add_linear(a.name + ".kv_b_proj", a.heads * (a.plain_dim + a.value_dim), a.rank,
                     block + ".attn_kv_b");
  tensors.add_linear(a.name + ".o_proj", a.hidden, a.heads * a.value_dim, block + ".attn_output", a.bias);
}

std::size_t declare_state(const MlaSpec& mla, gpu::KvType kv, StateLayout& state) {
  return state.add_per_token(mla.name + ".latent", gpu::kv_row_bytes(kv_of(mla, kv), mla.stored_dim()));
}

std::optional<std::string> gpu_refusal(const MlaSpec& mla) {
  const std::size_t stored = mla.stored_dim();
  if (mla.rank <= gpu::kMaxLatent && stored <= gpu::kMaxStored && mla.rank % 2 == 0 && stored % 8 == 0) {
    return std::nullopt;
  }
  return mla.name + ": latent attention of " + std::to_string(mla.rank) + " + " +
         std::to_string(mla.rotary_dim) + " elements a token";
}

PartSizes describe(const MlaSpec& mla) {
  return {"latent attention", std::to_string(mla.heads) + " heads, latents of " + std::to_string(mla.rank) +
                                  " and " + std::to_string(mla.rotary_dim) +
                                  (mla.rope ? " with rotary positions" : " without positions")};
}

}  // namespace reprise::models
