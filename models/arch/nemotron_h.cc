// Nemotron-H: each layer has one part after a plain RMS norm: Mamba-2, attention without positions, an
// ungated feed-forward part (relu^2), or MoE with such experts, a sigmoid router and a shared expert.
//
// dt is clamped to `time_step_limit` in prefill and decoding; `time_step_min` only matters in training.

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "models/arch/attention_keys.h"
#include "models/arch/config_source.h"
#include "models/arch/mamba2_keys.h"
#include "models/arch/model_draft.h"
#include "models/arch/model_keys.h"

namespace reprise::models {
namespace {

// limit on experts in all layers: each has its own description
constexpr std::size_t kMaxExpertsOfNemotron = 1u << 17;

enum class NemotronBlock : std::uint8_t { kMamba, kAttention, kMlp, kExperts };

constexpr Key kPattern{"hybrid_override_pattern", ""};
constexpr Key kNemotronInner{"intermediate_size", "feed_forward_length"};

NemotronBlock block_named(const JsonLocation& word) {
  const std::string& name = word.text();
  if (name == "mamba" || name == "linear_attention") return NemotronBlock::kMamba;
  if (name == "attention" || name == "full_attention") return NemotronBlock::kAttention;
  if (name == "mlp") return NemotronBlock::kMlp;
  if (name == "moe") return NemotronBlock::kExperts;
  word.fail("unknown layer type '" + name + "'");
}

// Parses "M-M*E".
std::vector<NemotronBlock> blocks_of(const JsonLocation& pattern) {
  std::vector<NemotronBlock> out;
  for (const char letter : pattern.text()) {
    switch (letter) {
      case 'M':
        out.push_back(NemotronBlock::kMamba);
        break;
      case '*':
        out.push_back(NemotronBlock::kAttention);
        break;
      case '-':
        out.push_back(NemotronBlock::kMlp);
        break;
      case 'E':
        out.push_back(NemotronBlock::kExperts);
        break;
      default:
        pattern.fail(std::string("unknown layer type '") + letter + "'");
    }
  }
  return out;
}

// Reads a list of names or, in older configs, a string with a letter per layer.
std::vector<NemotronBlock> blocks_of(const HfSource& hf) {
  std::vector<NemotronBlock> out;
  for (const std::string_view key : {"layers_block_type", "layer_types"}) {
    const std::optional<JsonLocation> names = hf.text().find(key);
    if (!names) continue;
    for (std::size_t i = 0; i < names->size(); ++i) out.push_back(block_named(names->at(i)));
    if (out.empty()) names->fail("names no layers");
    return out;
  }
  const JsonLocation pattern = hf.text().at(kPattern.hf);
  out = blocks_of(pattern);
  if (out.empty()) pattern.fail("names no layers");
  return out;
}

// Finds the kinds by the tensors each layer has.
std::vector<NemotronBlock> blocks_of(const GgufSource& gguf, std::size_t layers) {
  std::vector<NemotronBlock> out;
  for (std::size_t i = 0; i < layers; ++i) {
    const auto has = [&](const char* name) {
      return gguf.file().tensors().find("blk." + std::to_string(i) + "." + name + ".weight") != nullptr;
    };
    out.push_back(has("ssm_in")         ? NemotronBlock::kMamba
                  : has("ffn_gate_inp") ? NemotronBlock::kExperts
                  : has("ffn_up")       ? NemotronBlock::kMlp
                                        : NemotronBlock::kAttention);
  }
  return out;
}

// Index of the first block of this kind; blocks.size() if none.
std::size_t first_of(const std::vector<NemotronBlock>& blocks, NemotronBlock kind) {
  return static_cast<std::size_t>(std::find(blocks.begin(), blocks.end(), kind) - blocks.begin());
}

Mamba2Spec read_nemotron_mamba(const ConfigSource& source, std::size_t hidden, std::size_t layer) {
  // Older configs use other names for some keys.
  const auto either = [&](std::string_view older, std::string_view newer) {
    return source.has({older, ""}) ? older : newer;
  };
  return read_mamba2(source, hidden,
                     {.heads = "mamba_num_heads",
                      .head_dim = "mamba_head_dim",
                      .groups = either("mamba_n_groups", "n_groups"),
                      .state_size = "ssm_state_size",
                      .conv_kernel = either("mamba_d_conv", "conv_kernel"),
                      .conv_bias = either("mamba_conv_bias", "use_conv_bias"),
                      .in_bias = "use_bias",
                      .out_bias = "use_bias",
                      .activation = "mamba_hidden_act",
                      .dt_limit = either("mamba_dt_limit", "time_step_limit"),
                      .default_groups = 8,
                      .layer = layer});
}

AttentionSpec read_nemotron_attention(const ConfigSource& source, std::size_t hidden, std::size_t layer) {
  const Key older{"attention_head_dim", ""};
  AttentionKeys keys{.hidden = hidden, .hf_head_dim = 128, .layer = layer};
  if (source.has(older)) keys.hf_head_dim = source.count(older, kMaxHeadDim);
  return read_attention(source, keys);
}

void require_relu_squared(const ConfigSource& source) {
  if (source.hf() == nullptr) return;
  const auto act = source.hf()->text().find("mlp_hidden_act");
  if (act && act->text() != "relu2") {
    act->fail("the activation '" + act->text() + "' is not known; known is relu2");
  }
}

MoeSpec read_nemotron_experts(const ConfigSource& source, std::size_t hidden, std::size_t layers) {
  constexpr std::int64_t kMaxExperts = 4096;  // per layer
  const Key experts{"n_routed_experts", "expert_count"};
  const Key chosen{"num_experts_per_tok", "expert_used_count"};
  const Key groups{"n_group", "expert_group_count"};
  const Key chosen_groups{"topk_group", "expert_group_used_count"};
  const Key latent{"moe_latent_size", "moe_latent_size"};
  MoeSpec out{
      .hidden = hidden,
      .experts = source.count(experts, kMaxExperts),
      .chosen = source.count(chosen, kMaxExperts),
      .intermediate = source.count({"moe_intermediate_size", "expert_feed_forward_length"}, kMaxSize),
      .normalized = source.boolean_or({"norm_topk_prob", "expert_weights_norm"}, true),
      .shared_intermediate = source.count(
          {"moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"}, kMaxSize),
      .shared_gate = false,
      .scores = gpu::RouterScores::kSigmoid,
      .correction_bias = true,
      .groups = source.count_or(groups, kMaxExperts, 1),
      .chosen_groups = source.count_or(chosen_groups, kMaxExperts, 1),
      .epsilon = 1e-20F,
      .scale = static_cast<float>(source.number_or({"routed_scaling_factor", "expert_weights_scale"}, 1)),
      .form = MoeSpec::Form::kReluSquared,
      .latent = source.count_or(latent, kMaxSize, 0)};
  if (source.gguf() != nullptr && out.scale == 0) out.scale = 1;  // llama.cpp writes 0 for no scaling
  if (out.experts * layers > kMaxExpertsOfNemotron) {
    source.fail(experts, std::to_string(out.experts) + " in each of " + std::to_string(layers) +
                             " layers are more than " + std::to_string(kMaxExpertsOfNemotron));
  }
  if (out.experts % out.groups != 0 || (out.groups > 1 && out.experts / out.groups < 2)) {
    source.fail(groups, std::to_string(out.groups) + " groups of " + std::to_string(out.experts) +
                            " experts: each must have as many, and two at least");
  }
  if (out.chosen_groups > out.groups) source.fail(chosen_groups, "is more than " + source.name(groups));
  if (out.chosen > out.experts / out.groups * out.chosen_groups) {
    source.fail(chosen,
                std::to_string(out.chosen) + " is more than the experts of the groups that are chosen");
  }
  if (source.hf() != nullptr && source.boolean_or({"mlp_bias", ""}, false)) {
    source.fail({"mlp_bias", ""}, "experts with biases are not supported");
  }
  return out;
}

ModelConfig read_nemotron_h(const ConfigSource& source) {
  ModelConfig model = read_model_sizes(source, {.embedding = "embeddings"});
  model.head_may_differ = true;
  const std::vector<NemotronBlock> blocks =
      source.hf() != nullptr ? blocks_of(*source.hf()) : blocks_of(*source.gguf(), read_layer_count(source));
  const bool has_layer_eps = source.has({"layer_norm_epsilon", ""});
  const NormKind norm{
      .offset = 0, .eps = read_rms_eps(source, has_layer_eps ? "layer_norm_epsilon" : "rms_norm_eps", 1e-5)};
  const auto has = [&](NemotronBlock kind) { return first_of(blocks, kind) < blocks.size(); };
  require_relu_squared(source);

  Mamba2Spec mamba;
  AttentionSpec attention;
  MlpSpec mlp;
  MoeSpec experts;
  if (has(NemotronBlock::kMamba)) {
    mamba = read_nemotron_mamba(source, model.hidden, first_of(blocks, NemotronBlock::kMamba));
    mamba.norm = norm;
  }
  if (has(NemotronBlock::kAttention)) {
    attention = read_nemotron_attention(source, model.hidden, first_of(blocks, NemotronBlock::kAttention));
  }
  if (has(NemotronBlock::kMlp)) {
    const std::string layer = std::to_string(first_of(blocks, NemotronBlock::kMlp));
    mlp = {.hidden = model.hidden,
           .intermediate = source.uniform(kNemotronInner, kMaxSize),
           .bias = source.has_bias("mlp_bias", "blk." + layer + ".ffn_up.bias")};
  }

  if (has(NemotronBlock::kExperts)) {
    const auto count = std::count(blocks.begin(), blocks.end(), NemotronBlock::kExperts);
    experts = read_nemotron_experts(source, model.hidden, static_cast<std::size_t>(count));
  }

  ModelDraft draft(std::move(model), norm);
  for (const NemotronBlock block : blocks) {
    const NormSpec before = draft.norm("norm", "attn_norm");
    const auto part = [&]() -> PartSpec {
      switch (block) {
        case NemotronBlock::kMamba:
          return draft.part("mixer", mamba);
        case NemotronBlock::kAttention:
          return draft.part("mixer", attention, AttentionInGguf{.interleaved_heads = true});
        case NemotronBlock::kMlp:
          return draft.part("mixer", mlp);
        case NemotronBlock::kExperts:
          return draft.part("mixer", experts);
      }
      REPRISE_CHECK(false, "a layer has an unknown kind");
    };
    draft.add_layer({{{.norm = before, .parts = {part()}}}});
  }
  ModelConfig out = draft.finish("norm_f");
  // Hugging Face's writer omits these biases whatever attention_bias says; the publisher's does not.
  for (TensorSpec& tensor : out.tensors) tensor.may_be_missing = tensor.name.ends_with("_proj.bias");
  return out;
}

}  // namespace

Family nemotron_h_family() {
  return {.name = "nemotron_h",
          .hf_types = {"nemotron_h"},
          .gguf_names = {"nemotron_h", "nemotron_h_moe"},
          .read = read_nemotron_h};
}

}  // namespace reprise::models
