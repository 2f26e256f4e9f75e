// Qwen3: as Llama, with a norm on each query and key head, which the configuration tells the attention.

#include "models/arch/architectures.h"

namespace reprise::models {

void build_qwen3(HostModel& model) {
  build_llama(model);
}

}  // namespace reprise::models
