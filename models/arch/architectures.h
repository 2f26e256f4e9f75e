#pragma once
// One builder an architecture, each in the file of its name: adds the layers to a model whose checkpoint is
// open. The table that chooses is in models/cpu/host_model.cc.

#include "models/cpu/host_model.h"

namespace reprise::models {

void build_llama(HostModel& model);
void build_qwen3(HostModel& model);
void build_qwen3_5(HostModel& model);

/// A layer of the shape that all of them share: norms, mixer, SwiGLU. `prefix` is "layers.N".
Layer make_layer(const Checkpoint& checkpoint, const std::string& prefix, std::unique_ptr<Mixer> mixer);

}  // namespace reprise::models
