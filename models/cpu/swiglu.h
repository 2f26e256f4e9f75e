#pragma once
// The feed-forward part of Llama and Qwen: down(silu(gate(x)) * up(x)).

#include "models/cpu/layers.h"
#include "models/cpu/linear.h"

namespace reprise::models {

class Checkpoint;

class SwiGlu : public FeedForward {
 public:
  /// From `prefix`.gate_proj, up_proj, down_proj.
  SwiGlu(const Checkpoint& checkpoint, const std::string& prefix);
  void apply(Step& step, const float* x, std::size_t rows, float* y) const override;

 private:
  Linear gate_;
  Linear up_;
  Linear down_;
};

}  // namespace reprise::models
