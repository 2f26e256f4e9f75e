#pragma once
// Grouped-query attention over paged keys and values, with the options of the Llama and Qwen families: norms
// on query and key heads, rope on the leading part of a head, a sigmoid gate on the output.
//
// State: K and V of each token, [kv_heads, kPageTokens, head_dim] in each page, after norm and rope.

#include "models/arch/config.h"
#include "models/cpu/layers.h"
#include "models/cpu/linear.h"
#include "models/layers/layer_state.h"

namespace reprise::models {

class Checkpoint;

class Attention : public Mixer {
 public:
  /// From `prefix`.q_proj, k_proj, v_proj, o_proj and, where the configuration has them, q_norm and k_norm.
  Attention(const Checkpoint& checkpoint, const std::string& prefix, const ComputeOptions& options,
            StateLayout& state);
  void apply(Step& step, const float* x, float* y) const override;

 private:
  void split_gate(Step& step, const float* projected, float* q, float* gate) const;
  void norm_and_rotate(Step& step, const RmsNorm& norm, float* heads, std::size_t per_row) const;
  void store(Step& step, const float* values, std::size_t offset) const;

  const AttentionConfig config_;
  const std::size_t rope_pairs_;
  const gpu::KvType kv_;
  Linear q_;
  Linear k_;
  Linear v_;
  Linear o_;
  RmsNorm q_norm_;
  RmsNorm k_norm_;
  AttentionPlaces places_;
};

}  // namespace reprise::models
