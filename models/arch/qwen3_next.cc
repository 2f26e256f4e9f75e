// Qwen3-Next: the hybrid of models/arch/qwen_hybrid.h with experts in some layers or all, one axis of positions,
// and the projections of Gated DeltaNet fused key head by key head.

#include "models/arch/qwen_hybrid.h"

namespace reprise::models {
namespace {

ModelConfig read_qwen3_next(const ConfigSource& source) {
  return read_qwen_hybrid(source, {.feed_forward = QwenHybrid::FeedForward::kExpertsSomewhere,
                                   .interleaved_axes = false,
                                   .fused_by_key_head = true});
}

}  // namespace

Family qwen3_next_family() {
  return {
      .name = "qwen3_next", .hf_types = {"qwen3_next"}, .gguf_names = {"qwen3next"}, .read = read_qwen3_next};
}

}  // namespace reprise::models
