// Qwen3.5: the hybrid of models/arch/qwen_hybrid.h with SwiGLU in every layer. Also the text part of its
// multimodal models.

#include "models/arch/qwen_hybrid.h"

namespace reprise::models {
namespace {

ModelConfig read_qwen3_5(const ConfigSource& source) {
  return read_qwen_hybrid(source, {.feed_forward = QwenHybrid::FeedForward::kDense});
}

}  // namespace

Family qwen3_5_family() {
  return {.name = "qwen3_5_text",
          .hf_types = {"qwen3_5_text"},
          .hf_wrapper_types = {"qwen3_5"},
          .gguf_names = {"qwen35"},
          .read = read_qwen3_5};
}

}  // namespace reprise::models
