// Qwen3.5-MoE: the hybrid of models/arch/qwen_hybrid.h with experts in every layer. Also the text part of its
// multimodal models.

#include "models/arch/qwen_hybrid.h"

namespace reprise::models {
namespace {

ModelConfig read_qwen3_5_moe(const ConfigSource& source) {
  return read_qwen_hybrid(source, {.feed_forward = QwenHybrid::FeedForward::kExperts});
}

}  // namespace

Family qwen3_5_moe_family() {
  return {.name = "qwen3_5_moe_text",
          .hf_types = {"qwen3_5_moe_text"},
          .hf_wrapper_types = {"qwen3_5_moe"},
          .gguf_names = {"qwen35moe"},
          .read = read_qwen3_5_moe};
}

}  // namespace reprise::models
