#include "tools/lab/random_model/shape.h"

namespace reprise::tools {

const std::vector<NamedShape>& named_shapes() {
  static const std::vector<NamedShape> kShapes = [] {
    const auto qwen3_5 = [](std::size_t layers, std::size_t hidden, std::size_t intermediate,
                            std::size_t heads, std::size_t kv_heads, std::size_t value_heads) {
      return RandomShape{.type = "qwen3_5_text",
                         .layers = layers,
                         .hidden = hidden,
                         .intermediate = intermediate,
                         .heads = heads,
                         .kv_heads = kv_heads,
                         .head_dim = 256,
                         .vocab = 248320,
                         .tied = true,
                         .key_heads = 16,
                         .value_heads = value_heads,
                         .key_head_dim = 128,
                         .value_head_dim = 128};
    };
    const auto attention = [](std::string type, std::size_t layers, std::size_t hidden,
                              std::size_t intermediate, std::size_t heads, std::size_t head_dim,
                              std::size_t vocab) {
      return RandomShape{.type = std::move(type),
                         .layers = layers,
                         .hidden = hidden,
                         .intermediate = intermediate,
                         .heads = heads,
                         .kv_heads = heads / 2,
                         .head_dim = head_dim,
                         .vocab = vocab,
                         .tied = true,
                         .context = 40960};
    };
    RandomShape tiny = qwen3_5(4, 64, 160, 4, 2, 4);
    tiny.head_dim = 32;
    tiny.vocab = 512;
    tiny.tied = false;
    tiny.key_heads = 2;
    tiny.key_head_dim = tiny.value_head_dim = 16;
    RandomShape nine = qwen3_5(32, 4096, 12288, 16, 4, 32);
    nine.tied = false;
    RandomShape large = qwen3_5(64, 5120, 17408, 24, 4, 48);
    large.tied = false;
    const auto mixture = [&](RandomShape shape, std::size_t experts, std::size_t per_token,
                             std::size_t size) {
      shape.type = "qwen3_5_moe_text";
      shape.tied = false;
      shape.experts = experts;
      shape.experts_per_token = per_token;
      shape.expert_intermediate = shape.shared_intermediate = size;
      return shape;
    };
    RandomShape next_tiny = mixture(tiny, 8, 2, 32);
    next_tiny.type = "qwen3_next";
    RandomShape next = mixture(qwen3_5(48, 2048, 0, 16, 2, 32), 512, 10, 512);
    next.type = "qwen3_next";
    next.vocab = 151936;
    return std::vector<NamedShape>{{"qwen3_5-0.8b", qwen3_5(24, 1024, 3584, 8, 2, 16)},
                                   {"qwen3_5-2b", qwen3_5(24, 2048, 6144, 8, 2, 16)},
                                   {"qwen3_5-4b", qwen3_5(32, 2560, 9216, 16, 4, 32)},
                                   {"qwen3_5-9b", nine},
                                   {"qwen3_5-27b", large},
                                   {"qwen3_5-tiny", tiny},
                                   {"qwen3_5-35b-a3b", mixture(qwen3_5(40, 2048, 0, 16, 2, 32), 256, 8, 512)},
                                   {"qwen3_5_moe-tiny", mixture(tiny, 8, 2, 32)},
                                   {"qwen3_next-80b-a3b", next},
                                   {"qwen3_next-tiny", next_tiny},
                                   {"qwen3-0.6b", attention("qwen3", 28, 1024, 3072, 16, 128, 151936)},
                                   {"qwen3-tiny", attention("qwen3", 3, 64, 160, 4, 32, 512)},
                                   {"llama-tiny", attention("llama", 3, 64, 160, 4, 16, 512)}};
  }();
  return kShapes;
}

const RandomShape* shape_named(std::string_view name) {
  for (const NamedShape& named : named_shapes()) {
    if (named.name == name) return &named.shape;
  }
  return nullptr;
}

std::string config_json(const RandomShape& shape) {
  std::string out = "{\n";
  const auto number = [&](const char* key, std::size_t value) {
    out += std::string("  \"") + key + "\": " + std::to_string(value) + ",\n";
  };
  number("hidden_size", shape.hidden);
  if (shape.experts == 0) {
    number("intermediate_size", shape.intermediate);
  } else {
    number("num_experts", shape.experts);
    number("num_experts_per_tok", shape.experts_per_token);
    number("moe_intermediate_size", shape.expert_intermediate);
    number("shared_expert_intermediate_size", shape.shared_intermediate);
  }
  number("num_hidden_layers", shape.layers);
  number("num_attention_heads", shape.heads);
  number("num_key_value_heads", shape.kv_heads);
  number("head_dim", shape.head_dim);
  number("vocab_size", shape.vocab);
  number("max_position_embeddings", shape.context);
  if (shape.is_hybrid()) {
    number("full_attention_interval", shape.attention_interval);
    number("linear_num_key_heads", shape.key_heads);
    number("linear_num_value_heads", shape.value_heads);
    number("linear_key_head_dim", shape.key_head_dim);
    number("linear_value_head_dim", shape.value_head_dim);
    number("linear_conv_kernel_dim", shape.conv_kernel);
    const std::vector<std::int32_t> sections = shape.rope_sections();  // a quarter of each head turns
    out += "  \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000000.0, ";
    out += "\"partial_rotary_factor\": 0.25, \"mrope_interleaved\": true, \"mrope_section\": [";
    out += std::to_string(sections[0]) + ", " + std::to_string(sections[1]) + ", " +
           std::to_string(sections[2]) + "]},\n";
  } else {
    out += "  \"rope_theta\": 1000000.0,\n";
  }
  out += "  \"hidden_act\": \"silu\",\n  \"rms_norm_eps\": 1e-06,\n  \"dtype\": \"bfloat16\",\n";
  out += std::string("  \"tie_word_embeddings\": ") + (shape.tied ? "true" : "false") + ",\n";
  return out + "  \"model_type\": \"" + shape.type + "\"\n}\n";
}

}  // namespace reprise::tools
