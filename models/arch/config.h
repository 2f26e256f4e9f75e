#pragma once
// The hyper-parameters of a model, read from a Hugging Face config.json or from GGUF metadata, and validated:
// a ModelConfig that exists describes a model that can be built. Every derived size is computed once, by the
// readers, and the comment on each member says from what.
//
// Sizes are counted in elements, heads, layers or tokens, never in bytes. A new architecture adds an
// enumerator, its reader, and, where its layers need them, a struct beside LinearAttention.
//
// Threading: a plain value; immutable once it has been read.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sampling.h"
#include "models/layers/rope.h"

namespace reprise::models {

class Gguf;
class JsonPlace;

enum class Architecture : std::uint8_t {
  kLlama,   // attention, RMS norm
  kQwen3,   // as llama, with a norm on each query and key head
  kQwen35,  // gated delta net and gated attention layers, zero-centred norms
};

/// Hugging Face's model_type of the text model: "llama", "qwen3", "qwen3_5_text".
std::string_view name_of(Architecture architecture);

enum class LayerType : std::uint8_t { kFullAttention, kLinearAttention };

struct AttentionConfig {
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t head_dim = 0;
  bool qk_norm = false;      // a norm over each head of q and k, before rope
  bool output_gate = false;  // q_proj gives [q, gate] for each head; out *= sigmoid(gate)
  bool bias = false;         // on q, k, v and o

  std::size_t group = 0;        // heads / kv_heads
  std::size_t q_size = 0;       // heads * head_dim
  std::size_t kv_size = 0;      // kv_heads * head_dim
  std::size_t q_proj_rows = 0;  // q_size, twice that with a gate
};

/// Gated delta net. All zero where no layer is one.
struct LinearAttentionConfig {
  std::size_t key_heads = 0;
  std::size_t value_heads = 0;
  std::size_t key_head_dim = 0;
  std::size_t value_head_dim = 0;
  std::size_t conv_kernel = 0;

  std::size_t group = 0;            // value_heads / key_heads; value head h goes with key head h / group
  std::size_t key_size = 0;         // key_heads * key_head_dim
  std::size_t value_size = 0;       // value_heads * value_head_dim
  std::size_t conv_channels = 0;    // 2 * key_size + value_size: q, k, v
  std::size_t state_size = 0;       // value_heads * key_head_dim * value_head_dim, per layer
  std::size_t conv_state_size = 0;  // conv_channels * (conv_kernel - 1), per layer
};

struct TokenIds {
  std::optional<std::int32_t> bos;
  std::optional<std::int32_t> pad;
  std::vector<std::int32_t> eos;  // any of them ends a generation
};

struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  std::size_t hidden = 0;
  std::size_t layers = 0;
  std::size_t vocab = 0;
  std::size_t intermediate = 0;    // of the feed-forward part
  std::size_t context_length = 0;  // positions it was made for
  float rms_eps = 1e-6f;
  float norm_offset = 0;  // norms multiply by (offset + weight): 1 where weights are zero-centred
  bool tie_word_embeddings = false;
  bool mlp_bias = false;

  AttentionConfig attention;
  RopeConfig rope;
  LinearAttentionConfig linear;
  std::vector<LayerType> layer_types;  // [layers]

  std::size_t attention_layers = 0;  // of type kFullAttention
  std::size_t linear_layers = 0;     // of type kLinearAttention

  TokenIds tokens;
  SamplingWishes sampling;  // what the model's authors recommend

  /// `generation` is generation_config.json where there is one; its token ids win over config.json's.
  static ModelConfig from_hf(const JsonPlace& config, const JsonPlace* generation = nullptr);

  /// By the tensors it also learns what the metadata leaves out: vocabulary, ties, biases, rope factors.
  static ModelConfig from_gguf(const Gguf& file);
};

}  // namespace reprise::models
