// Llama: attention with rope on whole heads, SwiGLU, plain RMS norms.

#include "models/arch/architectures.h"
#include "models/cpu/attention.h"

namespace reprise::models {

void build_llama(HostModel& model) {
  const Checkpoint& checkpoint = model.checkpoint();
  for (std::size_t i = 0; i < model.config().layers; ++i) {
    const std::string prefix = "layers." + std::to_string(i);
    auto mixer = std::make_unique<Attention>(checkpoint, prefix + ".self_attn", model.options(),
                                             model.declare_state());
    model.add_layer(make_layer(checkpoint, prefix, std::move(mixer)));
  }
}

}  // namespace reprise::models
