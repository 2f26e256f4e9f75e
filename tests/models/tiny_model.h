#pragma once
// A random model of a few kilobytes in both formats. The GGUF side is written from the converter's definition
// (where row r of Hugging Face's matrix goes), not with the loader's code.

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/models/files/checkpoint_files.h"

namespace reprise::models::test {

struct TinyOptions {
  // One of types(); qwen3_5 and qwen3_5_moe are multimodal.
  std::string type = "qwen3_5_text";
  std::size_t hidden = 8, layers = 4, vocab = 11, intermediate = 6;
  std::size_t heads = 4, kv_heads = 2, head_dim = 8;
  std::size_t key_heads = 2, value_heads = 4, key_dim = 2, value_dim = 2, kernel = 3;
  bool tied = false, attention_bias = false, mlp_bias = false;
  std::vector<bool> linear = {};  // per layer; empty: every fourth is attention
  std::size_t experts = 4, chosen = 2, expert_size = 4, shared_size = 5;  // shared_size 0: no shared expert
  bool normalized = true;
  std::vector<bool> sparse = {};  // per layer; empty: all, in a family with experts
  bool stacked = false;           // Hugging Face's experts stacked in one tensor
};

struct TinyTensor {
  std::vector<std::uint64_t> shape;
  std::vector<float> values;  // representable in BF16
};

class TinyModel {
 public:
  explicit TinyModel(TinyOptions options, std::uint64_t seed = 1) : o(std::move(options)), random_(seed) {
    if (o.linear.empty()) {
      for (std::size_t i = 0; i < o.layers; ++i) o.linear.push_back(hybrid() && (i + 1) % 4 != 0);
    }
    if (o.sparse.empty()) o.sparse.assign(o.layers, is_next() || o.type.starts_with("qwen3_5_moe"));
    make();
  }

  /// The supported types; other families are tested with samples only (tests/models/family_table.h).
  static std::vector<std::string> types() {
    return {"llama", "qwen3", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next"};
  }

  TinyOptions o;
  std::map<std::string, TinyTensor> tensors;  // by canonical name

  bool is_next() const { return o.type == "qwen3_next"; }
  bool hybrid() const { return o.type.starts_with("qwen3_5") || is_next(); }
  std::string config_json(const std::string& extra = "") const;

  /// `prefix` is prepended to every name except lm_head.
  SafetensorsWriter safetensors(const std::string& prefix = "model.") const {
    SafetensorsWriter out;
    for (const auto& [name, tensor] : hf_tensors()) {
      out.tensor(name == "lm_head.weight" ? name : prefix + name, "BF16", tensor.shape,
                 raw_bf16(tensor.values));
    }
    return out;
  }

  /// Tensors as stored in a folder: stacked or fused where the folder has them so.
  std::map<std::string, TinyTensor> hf_tensors() const;

  /// The GGUF file as the converter writes it: matrices in BF16 or F32, everything else in F32.
  GgufWriter gguf(bool bf16 = false) const;

  void gguf_tensors(GgufWriter& out, bool bf16) const;

 private:
  void add(const std::string& name, std::vector<std::uint64_t> shape) {
    std::uint64_t count = 1;
    for (std::uint64_t d : shape) count *= d;
    std::vector<float> values(count);
    std::normal_distribution<float> normal(0, 0.5f);
    for (float& value : values) {
      value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(normal(random_)) & 0xffff0000u);
    }
    tensors[name] = {std::move(shape), std::move(values)};
  }
  void make();
  void make_experts(const std::string& p);
  std::string gguf_name(const std::string& name) const;
  std::string layer(std::size_t i) const { return "layers." + std::to_string(i) + "."; }

  /// Interleaves rows of several tensors, `rows` of each in turn until all are used; removes them from
  /// `from`.
  static TinyTensor interleave(std::map<std::string, TinyTensor>& from,
                               const std::vector<std::pair<std::string, std::size_t>>& parts);
  /// Concatenates the matrices of all experts of a layer; removes them from `from`.
  TinyTensor stack(std::map<std::string, TinyTensor>& from, std::size_t layer,
                   const std::vector<std::string>& matrices) const;

  // Index in the file of row (for out_proj, column) i of Hugging Face's tensor.
  std::size_t v_index(std::size_t i, std::size_t unit) const {
    const std::size_t group = o.value_heads / o.key_heads;
    const std::size_t head = i / unit;
    return ((head % group) * o.key_heads + head / group) * unit + i % unit;
  }
  std::size_t rope_index(std::size_t i) const {
    const std::size_t in_head = i % o.head_dim;
    const std::size_t half = o.head_dim / 2;
    return i - in_head + (in_head % half) * 2 + in_head / half;
  }

  std::mt19937_64 random_;
};

inline void TinyModel::make() {
  add("embed_tokens.weight", {o.vocab, o.hidden});
  add("norm.weight", {o.hidden});
  if (!o.tied) add("lm_head.weight", {o.vocab, o.hidden});
  for (std::size_t i = 0; i < o.layers; ++i) {
    const std::string p = "layers." + std::to_string(i) + ".";
    const auto matrix = [&](const std::string& name, std::size_t rows, std::size_t columns, bool bias) {
      add(p + name + ".weight", {rows, columns});
      if (bias) add(p + name + ".bias", {rows});
    };
    add(p + "input_layernorm.weight", {o.hidden});
    add(p + "post_attention_layernorm.weight", {o.hidden});
    if (o.sparse[i]) {
      make_experts(p + "mlp.");
    } else {
      matrix("mlp.gate_proj", o.intermediate, o.hidden, o.mlp_bias);
      matrix("mlp.up_proj", o.intermediate, o.hidden, o.mlp_bias);
      matrix("mlp.down_proj", o.hidden, o.intermediate, o.mlp_bias);
    }
    if (o.linear[i]) {
      const std::size_t values = o.value_heads * o.value_dim;
      const std::size_t channels = 2 * o.key_heads * o.key_dim + values;
      matrix("linear_attn.in_proj_qkv", channels, o.hidden, false);
      matrix("linear_attn.in_proj_z", values, o.hidden, false);
      matrix("linear_attn.in_proj_a", o.value_heads, o.hidden, false);
      matrix("linear_attn.in_proj_b", o.value_heads, o.hidden, false);
      matrix("linear_attn.out_proj", o.hidden, values, false);
      add(p + "linear_attn.conv1d.weight", {channels, 1, o.kernel});
      add(p + "linear_attn.A_log", {o.value_heads});
      add(p + "linear_attn.dt_bias", {o.value_heads});
      add(p + "linear_attn.norm.weight", {o.value_dim});
    } else {
      const std::size_t q = o.heads * o.head_dim;
      matrix("self_attn.q_proj", hybrid() ? 2 * q : q, o.hidden, o.attention_bias);
      matrix("self_attn.k_proj", o.kv_heads * o.head_dim, o.hidden, o.attention_bias);
      matrix("self_attn.v_proj", o.kv_heads * o.head_dim, o.hidden, o.attention_bias);
      matrix("self_attn.o_proj", o.hidden, q, o.attention_bias);
      if (o.type != "llama") {
        add(p + "self_attn.q_norm.weight", {o.head_dim});
        add(p + "self_attn.k_norm.weight", {o.head_dim});
      }
    }
  }
}

inline void TinyModel::make_experts(const std::string& p) {
  const auto expert = [&](const std::string& name, std::size_t size) {
    add(name + ".gate_proj.weight", {size, o.hidden});
    add(name + ".up_proj.weight", {size, o.hidden});
    add(name + ".down_proj.weight", {o.hidden, size});
  };
  add(p + "gate.weight", {o.experts, o.hidden});
  for (std::size_t e = 0; e < o.experts; ++e) expert(p + "experts." + std::to_string(e), o.expert_size);
  if (o.shared_size == 0) return;
  add(p + "shared_expert_gate.weight", {1, o.hidden});
  expert(p + "shared_expert", o.shared_size);
}

inline TinyTensor TinyModel::interleave(std::map<std::string, TinyTensor>& from,
                                        const std::vector<std::pair<std::string, std::size_t>>& parts) {
  TinyTensor out{{0, from.at(parts[0].first).shape[1]}, {}};
  std::map<std::string, std::size_t> used;  // elements
  const std::string& first = parts[0].first;
  while (used[first] < from.at(first).values.size()) {
    for (const auto& [name, rows] : parts) {
      const std::vector<float>& values = from.at(name).values;
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(used[name]);
      const std::size_t count = rows * out.shape[1];
      out.values.insert(out.values.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
      used[name] += count;
    }
  }
  out.shape[0] = out.values.size() / out.shape[1];
  for (const auto& part : parts) from.erase(part.first);
  return out;
}

inline TinyTensor TinyModel::stack(std::map<std::string, TinyTensor>& from, std::size_t i,
                                   const std::vector<std::string>& matrices) const {
  TinyTensor out{{o.experts, 0, 0}, {}};
  for (std::size_t e = 0; e < o.experts; ++e) {
    for (const std::string& matrix : matrices) {
      const auto found = from.find(layer(i) + "mlp.experts." + std::to_string(e) + "." + matrix + ".weight");
      const TinyTensor& one = found->second;
      out.values.insert(out.values.end(), one.values.begin(), one.values.end());
      out.shape[2] = one.shape[1];
      from.erase(found);
    }
  }
  out.shape[1] = out.values.size() / o.experts / out.shape[2];
  return out;
}

inline std::map<std::string, TinyTensor> TinyModel::hf_tensors() const {
  std::map<std::string, TinyTensor> out = tensors;
  for (std::size_t i = 0; i < o.layers; ++i) {
    if (o.sparse[i] && o.stacked) {
      out[layer(i) + "mlp.experts.gate_up_proj"] = stack(out, i, {"gate_proj", "up_proj"});
      out[layer(i) + "mlp.experts.down_proj"] = stack(out, i, {"down_proj"});
    }
    if (!is_next() || !o.linear[i]) continue;
    const std::string net = layer(i) + "linear_attn.";
    // q, k and v of in_proj_qkv as separate tensors.
    const TinyTensor qkv = out.at(net + "in_proj_qkv.weight");
    out.erase(net + "in_proj_qkv.weight");
    std::size_t at = 0;
    const std::size_t group = o.value_heads / o.key_heads;
    const std::pair<const char*, std::size_t> parts[] = {
        {"q", o.key_heads * o.key_dim}, {"k", o.key_heads * o.key_dim}, {"v", o.value_heads * o.value_dim}};
    for (const auto& [name, rows] : parts) {
      const auto begin = qkv.values.begin() + static_cast<std::ptrdiff_t>(at);
      at += rows * o.hidden;
      out[name] = {{rows, o.hidden}, {begin, qkv.values.begin() + static_cast<std::ptrdiff_t>(at)}};
    }
    out[net + "in_proj_qkvz.weight"] = interleave(out, {{"q", o.key_dim},
                                                        {"k", o.key_dim},
                                                        {"v", group * o.value_dim},
                                                        {net + "in_proj_z.weight", group * o.value_dim}});
    out[net + "in_proj_ba.weight"] =
        interleave(out, {{net + "in_proj_b.weight", group}, {net + "in_proj_a.weight", group}});
  }
  return out;
}

inline std::string TinyModel::config_json(const std::string& extra) const {
  std::string types;
  for (bool linear : o.linear)
    types += std::string(types.empty() ? "" : ",") + (linear ? "\"linear_attention\"" : "\"full_attention\"");
  const auto number = [](const char* key, std::size_t value) {
    return std::string("\"") + key + "\":" + std::to_string(value) + ",";
  };
  const auto flag = [](const char* key, bool value) {
    return std::string("\"") + key + "\":" + (value ? "true," : "false,");
  };
  std::string text = number("hidden_size", o.hidden) + number("num_hidden_layers", o.layers) +
                     number("vocab_size", o.vocab) + number("intermediate_size", o.intermediate) +
                     number("max_position_embeddings", 128) + number("num_attention_heads", o.heads) +
                     number("num_key_value_heads", o.kv_heads) + number("head_dim", o.head_dim) +
                     flag("tie_word_embeddings", o.tied) + flag("attention_bias", o.attention_bias) +
                     flag("mlp_bias", o.mlp_bias) + "\"hidden_act\":\"silu\",\"rms_norm_eps\":1e-06," + extra;
  if (o.type != "llama") text += "\"layer_types\":[" + types + "],";
  if (hybrid()) {
    text += number("linear_num_key_heads", o.key_heads) + number("linear_num_value_heads", o.value_heads) +
            number("linear_key_head_dim", o.key_dim) + number("linear_value_head_dim", o.value_dim) +
            number("linear_conv_kernel_dim", o.kernel);
    text +=
        "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000000.0,"
        "\"partial_rotary_factor\":0.5,\"mrope_section\":[1,1,0]},";
  } else {
    text += "\"rope_theta\":500000.0,";
  }
  if (is_next() || o.type.starts_with("qwen3_5_moe")) {
    text += number("num_experts", o.experts) + number("num_experts_per_tok", o.chosen) +
            number("moe_intermediate_size", o.expert_size) +
            number("shared_expert_intermediate_size", o.shared_size);
  }
  if (is_next()) {
    std::string dense;
    for (std::size_t i = 0; i < o.layers; ++i) {
      if (o.sparse[i]) continue;
      if (!dense.empty()) dense += ',';
      dense += std::to_string(i);
    }
    text += flag("norm_topk_prob", o.normalized) + "\"mlp_only_layers\":[" + dense + "],";
  }
  if (o.type != "qwen3_5" && o.type != "qwen3_5_moe") {
    return "{" + text + "\"model_type\":\"" + o.type + "\",\"eos_token_id\":[2,3]}";
  }
  return "{\"model_type\":\"" + o.type + "\",\"vision_config\":{},\"text_config\":{" + text +
         "\"model_type\":\"" + o.type + "_text\",\"eos_token_id\":2}," + flag("tie_word_embeddings", o.tied) +
         "\"image_token_id\":1}";
}

inline std::string TinyModel::gguf_name(const std::string& name) const {
  if (name == "embed_tokens.weight") return "token_embd.weight";
  if (name == "norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  static const std::vector<std::pair<std::string, std::string>> kParts = {
      {"input_layernorm", "attn_norm"},
      {"linear_attn.in_proj_qkv", "attn_qkv"},
      {"linear_attn.in_proj_z", "attn_gate"},
      {"linear_attn.in_proj_a", "ssm_alpha"},
      {"linear_attn.in_proj_b", "ssm_beta"},
      {"linear_attn.out_proj", "ssm_out"},
      {"linear_attn.conv1d", "ssm_conv1d"},
      {"linear_attn.A_log", "ssm_a"},
      {"linear_attn.dt_bias", "ssm_dt.bias"},
      {"linear_attn.norm", "ssm_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"mlp.gate.", "ffn_gate_inp."},
      {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
      {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
      {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
      {"mlp.shared_expert.down_proj", "ffn_down_shexp"}};
  std::string out = "blk." + name.substr(7);
  const auto replace = [&](const std::string& from, const std::string& to) {
    if (const std::size_t at = out.find(from); at != out.npos) out.replace(at, from.size(), to);
  };
  replace("post_attention_layernorm", hybrid() ? "post_attention_norm" : "ffn_norm");
  for (const auto& [from, to] : kParts) replace(from, to);
  return out;
}

inline void TinyModel::gguf_tensors(GgufWriter& out, bool bf16) const {
  std::map<std::string, TinyTensor> all = tensors;
  const auto as_they_are = [&](const std::string& name, const TinyTensor& tensor) {
    out.tensor(name, bf16 ? 30 : 0, tensor.shape, bf16 ? raw_bf16(tensor.values) : raw_f32(tensor.values));
  };
  for (std::size_t i = 0; i < o.layers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    if (o.sparse[i] && all.contains(layer(i) + "mlp.experts.0.gate_proj.weight")) {
      as_they_are(block + "ffn_gate_exps.weight", stack(all, i, {"gate_proj"}));
      as_they_are(block + "ffn_up_exps.weight", stack(all, i, {"up_proj"}));
      as_they_are(block + "ffn_down_exps.weight", stack(all, i, {"down_proj"}));
    }
    if (!is_next() || !o.linear[i]) continue;
    const std::size_t group = o.value_heads / o.key_heads;
    as_they_are(block + "ssm_ba.weight",
                interleave(all, {{layer(i) + "linear_attn.in_proj_b.weight", group},
                                 {layer(i) + "linear_attn.in_proj_a.weight", group}}));
  }
  for (const auto& [name, tensor] : all) {
    std::vector<float> values = tensor.values;
    std::vector<std::uint64_t> shape = tensor.shape;
    const std::size_t columns = shape.size() == 1 ? 1 : shape.back();
    const auto has = [&](const char* part) { return name.find(part) != name.npos; };
    const auto move_rows = [&](const std::function<std::size_t(std::size_t)>& index_of) {
      const std::vector<float> before = values;
      for (std::size_t row = 0; row < shape[0]; ++row) {
        for (std::size_t c = 0; c < columns; ++c)
          values[index_of(row) * columns + c] = before[row * columns + c];
      }
    };
    if (o.type == "llama" && (has("q_proj") || has("k_proj"))) {
      move_rows([&](std::size_t row) { return rope_index(row); });
    }
    if (o.key_heads != o.value_heads && has("linear_attn.") && !is_next()) {
      const std::size_t keys = 2 * o.key_heads * o.key_dim;
      if (has("in_proj_qkv") || has("conv1d")) {
        move_rows(
            [&](std::size_t row) { return row < keys ? row : keys + v_index(row - keys, o.value_dim); });
      } else if (has("in_proj_z")) {
        move_rows([&](std::size_t row) { return v_index(row, o.value_dim); });
      } else if (has("in_proj_a") || has("in_proj_b") || has("A_log") || has("dt_bias")) {
        move_rows([&](std::size_t row) { return v_index(row, 1); });
      } else if (has("out_proj")) {
        const std::vector<float> before = values;
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i - i % columns + v_index(i % columns, o.value_dim)] = before[i];
        }
      }
    }
    if (has("A_log")) {
      for (float& value : values) value = -std::exp(value);
    }
    if (hybrid() && name.ends_with("norm.weight") && !has("linear_attn.norm")) {
      for (float& value : values) value += 1.0f;
    }
    if (has("conv1d")) shape = {shape[0], shape[2]};
    const bool as_bf16 = bf16 && shape.size() == 2 && !has("conv1d");
    out.tensor(gguf_name(name), as_bf16 ? 30 : 0, shape, as_bf16 ? raw_bf16(values) : raw_f32(values));
  }
}

inline GgufWriter TinyModel::gguf(bool bf16) const {
  GgufWriter out;
  const bool moe = o.type.starts_with("qwen3_5_moe");
  const std::string arch = is_next() ? "qwen3next" : moe ? "qwen35moe" : hybrid() ? "qwen35" : o.type;
  const auto u32 = [&](const char* key, std::size_t value) {
    out.u32(arch + "." + key, static_cast<std::uint32_t>(value));
  };
  out.text("general.architecture", arch);
  u32("block_count", o.layers);
  u32("context_length", 128);
  u32("embedding_length", o.hidden);
  u32("feed_forward_length", o.intermediate);
  u32("attention.head_count", o.heads);
  u32("attention.head_count_kv", o.kv_heads);
  u32("attention.key_length", o.head_dim);
  u32("attention.value_length", o.head_dim);
  out.f32(arch + ".attention.layer_norm_rms_epsilon", 1e-6f);
  if (hybrid()) {
    out.f32(arch + ".rope.freq_base", 1e7f);
    u32("rope.dimension_count", o.head_dim / 2);
    if (!is_next()) out.i32s(arch + ".rope.dimension_sections", {1, 1, 0, 0});
    u32("ssm.conv_kernel", o.kernel);
    u32("ssm.state_size", o.key_dim);
    u32("ssm.group_count", o.key_heads);
    u32("ssm.time_step_rank", o.value_heads);
    u32("ssm.inner_size", o.value_heads * o.value_dim);
    std::string recurrent;
    for (bool linear : o.linear) recurrent += raw(static_cast<std::uint8_t>(linear));
    out.array(arch + ".attention.recurrent_layers", 7, o.layers, recurrent);
  } else {
    out.f32(arch + ".rope.freq_base", 500000.0f);
  }
  if (moe || is_next()) {
    u32("expert_count", o.experts);
    u32("expert_used_count", o.chosen);
    u32("expert_feed_forward_length", o.expert_size);
    u32("expert_shared_feed_forward_length", o.shared_size);
    if (!o.normalized) out.boolean(arch + ".expert_weights_norm", false);
  }
  out.u32("tokenizer.ggml.eos_token_id", 2);
  gguf_tensors(out, bf16);
  return out;
}

}  // namespace reprise::models::test
