#include "models/arch/tensor_table.h"

#include <utility>

namespace reprise::models {
namespace {

using Values = GgufLayout::Values;

// The list of one model in the making.
class Table {
 public:
  Table(const ModelConfig& config, const GgufTraits& traits) : config_(config), traits_(traits) {}

  std::vector<TensorSpec> build() {
    const ModelConfig& c = config_;
    add("embed_tokens.weight", {c.vocab, c.hidden}, "token_embd.weight");
    for (std::size_t i = 0; i < c.layers; ++i) layer(i);
    add("norm.weight", {c.hidden}, "output_norm.weight", norm());
    if (!c.tie_word_embeddings) add("lm_head.weight", {c.vocab, c.hidden}, "output.weight");
    return std::move(out_);
  }

 private:
  void layer(std::size_t i) {
    name_prefix_ = "layers." + std::to_string(i) + ".";
    gguf_prefix_ = "blk." + std::to_string(i) + ".";
    const bool qwen35 = config_.architecture == Architecture::kQwen35;
    add("input_layernorm.weight", {config_.hidden}, "attn_norm.weight", norm());
    switch (config_.layer_types[i]) {
      case LayerType::kFullAttention:
        full_attention();
        break;
      case LayerType::kLinearAttention:
        linear_attention();
        break;
    }
    add("post_attention_layernorm.weight", {config_.hidden},
        qwen35 ? "post_attention_norm.weight" : "ffn_norm.weight", norm());
    mlp();
    name_prefix_.clear();
    gguf_prefix_.clear();
  }

  void full_attention() {
    const AttentionConfig& a = config_.attention;
    const bool permuted = config_.architecture == Architecture::kLlama;
    linear("self_attn.q_proj", a.q_proj_rows, config_.hidden, "attn_q", a.bias, rope_rows(permuted, a.heads));
    linear("self_attn.k_proj", a.kv_size, config_.hidden, "attn_k", a.bias, rope_rows(permuted, a.kv_heads));
    linear("self_attn.v_proj", a.kv_size, config_.hidden, "attn_v", a.bias);
    linear("self_attn.o_proj", config_.hidden, a.q_size, "attn_output", a.bias);
    if (a.qk_norm) {
      add("self_attn.q_norm.weight", {a.head_dim}, "attn_q_norm.weight", norm());
      add("self_attn.k_norm.weight", {a.head_dim}, "attn_k_norm.weight", norm());
    }
  }

  void linear_attention() {
    const LinearAttentionConfig& l = config_.linear;
    const GgufLayout v_rows = value_heads(l.value_head_dim);
    GgufLayout qkv_rows = v_rows;
    qkv_rows.skip = 2 * l.key_size;
    GgufLayout v_columns = v_rows;
    if (v_columns.axis == GgufLayout::Axis::kRows) v_columns.axis = GgufLayout::Axis::kColumns;
    const GgufLayout per_head = value_heads(1);
    GgufLayout decay = per_head;
    decay.values = Values::kNegativeExp;

    linear("linear_attn.in_proj_qkv", l.conv_channels, config_.hidden, "attn_qkv", false, qkv_rows);
    linear("linear_attn.in_proj_z", l.value_size, config_.hidden, "attn_gate", false, v_rows);
    linear("linear_attn.in_proj_b", l.value_heads, config_.hidden, "ssm_beta", false, per_head);
    linear("linear_attn.in_proj_a", l.value_heads, config_.hidden, "ssm_alpha", false, per_head);
    add("linear_attn.conv1d.weight", {l.conv_channels, 1, l.conv_kernel}, "ssm_conv1d.weight", qkv_rows);
    add("linear_attn.A_log", {l.value_heads}, "ssm_a", decay);
    add("linear_attn.dt_bias", {l.value_heads}, "ssm_dt.bias", per_head);
    out_.back().gguf_names.push_back(gguf_prefix_ + "ssm_dt");
    add("linear_attn.norm.weight", {l.value_head_dim}, "ssm_norm.weight");  // not zero-centred
    linear("linear_attn.out_proj", config_.hidden, l.value_size, "ssm_out", false, v_columns);
  }

  void mlp() {
    linear("mlp.gate_proj", config_.intermediate, config_.hidden, "ffn_gate", config_.mlp_bias);
    linear("mlp.up_proj", config_.intermediate, config_.hidden, "ffn_up", config_.mlp_bias);
    linear("mlp.down_proj", config_.hidden, config_.intermediate, "ffn_down", config_.mlp_bias);
  }

  // A matrix [rows, columns] and, if it has one, its bias.
  void linear(const std::string& name, std::size_t rows, std::size_t columns, const std::string& gguf,
              bool bias, const GgufLayout& layout = {}) {
    add(name + ".weight", {rows, columns}, gguf + ".weight", layout);
    if (bias) add(name + ".bias", {rows}, gguf + ".bias", layout);
  }

  void add(const std::string& name, Shape shape, const std::string& gguf, const GgufLayout& layout = {}) {
    out_.push_back({name_prefix_ + name, std::move(shape), {gguf_prefix_ + gguf}, layout});
  }

  // Zero-centred weights are stored with the 1 added.
  GgufLayout norm() const {
    GgufLayout out;
    if (config_.architecture == Architecture::kQwen35) out.values = Values::kPlusOne;
    return out;
  }

  // Each head's two halves interleaved.
  GgufLayout rope_rows(bool permuted, std::size_t heads) const {
    GgufLayout out;
    if (!permuted) return out;
    out.axis = GgufLayout::Axis::kRows;
    out.batch = heads;
    out.outer = config_.attention.head_dim / 2;
    out.inner = 2;
    return out;
  }

  // Head k * group + j at place j * key_heads + k, each of `unit` rows.
  GgufLayout value_heads(std::size_t unit) const {
    GgufLayout out;
    if (!traits_.tiled_value_heads || config_.linear.group == 1) return out;
    out.axis = GgufLayout::Axis::kRows;
    out.outer = config_.linear.group;
    out.inner = config_.linear.key_heads;
    out.unit = unit;
    return out;
  }

  const ModelConfig& config_;
  const GgufTraits& traits_;
  std::string name_prefix_;
  std::string gguf_prefix_;
  std::vector<TensorSpec> out_;
};

}  // namespace

std::vector<TensorSpec> text_tensors(const ModelConfig& config, const GgufTraits& traits) {
  return Table(config, traits).build();
}

}  // namespace reprise::models
