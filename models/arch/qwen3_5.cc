// Qwen3.5: three layers of Gated DeltaNet to one of gated attention with partial rope; zero-centred norms;
// SwiGLU.

#include "models/arch/architectures.h"
#include "models/cpu/attention.h"
#include "models/cpu/gated_delta_net.h"

namespace reprise::models {

void build_qwen3_5(HostModel& model) {
  const Checkpoint& checkpoint = model.checkpoint();
  const ModelConfig& config = model.config();
  for (std::size_t i = 0; i < config.layers; ++i) {
    const std::string prefix = "layers." + std::to_string(i);
    std::unique_ptr<Mixer> mixer;
    if (config.layer_types[i] == LayerType::kLinearAttention) {
      mixer = std::make_unique<GatedDeltaNet>(checkpoint, prefix + ".linear_attn", model.declare_state());
    } else {
      mixer = std::make_unique<Attention>(checkpoint, prefix + ".self_attn", model.options(),
                                          model.declare_state());
    }
    model.add_layer(make_layer(checkpoint, prefix, std::move(mixer)));
  }
}

}  // namespace reprise::models
