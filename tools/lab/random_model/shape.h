#pragma once
// The shapes of models that can be written with random weights: named ones, and any other by changing their
// fields.
//
// Threading: plain values.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::tools {

struct RandomShape {
  std::string type;  // Hugging Face's model_type: llama, qwen3, qwen3_5_text, qwen3_5_moe_text, qwen3_next
  std::size_t layers = 0;
  std::size_t hidden = 0;
  std::size_t intermediate = 0;
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t head_dim = 0;
  std::size_t vocab = 0;
  bool tied = false;  // the embedding is the head as well

  // qwen3_5_moe_text and qwen3_next alone, which have no `intermediate`
  std::size_t experts = 0;
  std::size_t experts_per_token = 0;
  std::size_t expert_intermediate = 0;
  std::size_t shared_intermediate = 0;  // of the expert that all tokens share

  // All of these three
  std::size_t attention_interval = 4;  // every so-manyth layer is attention
  std::size_t key_heads = 0;
  std::size_t value_heads = 0;
  std::size_t key_head_dim = 0;
  std::size_t value_head_dim = 0;
  std::size_t conv_kernel = 4;

  std::size_t context = 262144;

  /// Whether some layers are Gated DeltaNets.
  bool is_hybrid() const {
    return type == "qwen3_5_text" || type == "qwen3_5_moe_text" || type == "qwen3_next";
  }
  /// Of a hybrid, where a quarter of each head turns: the pairs that turn with time, height and width.
  std::vector<std::int32_t> rope_sections() const {
    const auto pairs = static_cast<std::int32_t>(head_dim / 8);
    return {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3};
  }
};

struct NamedShape {
  std::string_view name;
  RandomShape shape;
};

const std::vector<NamedShape>& named_shapes();
/// Null for a word that names none.
const RandomShape* shape_named(std::string_view name);

/// The config.json of a Hugging Face folder. Whether it makes sense is for its reader to say.
std::string config_json(const RandomShape& shape);

}  // namespace reprise::tools
