#include "models/arch/moe_keys.h"

#include <optional>

#include "models/arch/config_source.h"
#include "models/arch/model_keys.h"

namespace reprise::models {
namespace {

// Several times as many as existing models have; each expert has its own description.
constexpr std::size_t kMaxExpertsOfModel = 1u << 17;

constexpr Key kExpertCount{"num_experts", "expert_count"};
constexpr Key kChosen{"num_experts_per_tok", "expert_used_count"};
constexpr Key kExpertSize{"moe_intermediate_size", "expert_feed_forward_length"};
constexpr Key kSharedSize{"shared_expert_intermediate_size", "expert_shared_feed_forward_length"};
constexpr Key kNormalized{"norm_topk_prob", "expert_weights_norm"};
constexpr Key kWeightScale{"", "expert_weights_scale"};
constexpr Key kSparseStep{"decoder_sparse_step", ""};
constexpr Key kDenseLayers{"mlp_only_layers", ""};

// A number that may be 0; nullopt if the key is missing.
std::optional<std::int64_t> integer_at(const ConfigSource& source, const Key& key) {
  if (!source.has(key)) return std::nullopt;
  if (const HfSource* hf = source.hf()) return hf->text().at(key.hf).integer();
  return source.gguf()->metadata().integer(source.gguf()->full(key));
}

const StoredTensor* find_tensor(const GgufSource& gguf, std::size_t layer, const char* name) {
  return gguf.file().tensors().find("blk." + std::to_string(layer) + "." + name);
}

// The key's value or, if GGUF omits it, the columns of `tensor`; 0: neither exists.
std::size_t read_size(const ConfigSource& source, const Key& key, std::size_t layer, const char* tensor) {
  const std::optional<std::int64_t> said = integer_at(source, key);
  if (said && *said != 0) return source.count(key, kMaxSize);
  if (source.gguf() == nullptr) return 0;
  const StoredTensor* stored = find_tensor(*source.gguf(), layer, tensor);
  if (stored == nullptr || stored->shape.empty()) return 0;
  const std::uint64_t columns = stored->shape.back();
  if (columns > static_cast<std::uint64_t>(kMaxSize)) {
    source.fail(key, "is missing, and " + stored->name + " has " + std::to_string(columns) + " columns");
  }
  return columns;
}

}  // namespace

MoeSpec read_moe(const ConfigSource& source, const MoeKeys& keys) {
  require_silu(source);
  MoeSpec out;
  out.hidden = keys.hidden;
  out.experts = source.count(kExpertCount, kMaxExperts);
  out.chosen = source.count(kChosen, kMaxExperts);
  check_router(source, {.experts = kExpertCount, .chosen = kChosen}, out, keys.layers);
  out.intermediate = read_size(source, kExpertSize, keys.layer, "ffn_down_exps.weight");
  if (out.intermediate == 0) out.intermediate = source.count(kExpertSize, kMaxSize);  // fails with a message
  out.shared_intermediate = read_size(source, kSharedSize, keys.layer, "ffn_down_shexp.weight");
  if (keys.has_norm_key || source.gguf() != nullptr) out.normalized = source.boolean_or(kNormalized, true);
  const double scale = source.number_or(kWeightScale, 1);
  if (scale != 1 && scale != 0) source.fail(kWeightScale, "is not known in this architecture");  // 0: none
  return out;
}

void check_router(const ConfigSource& source, const RouterKeys& keys, const MoeSpec& moe,
                  std::size_t layers) {
  const auto number = [](std::size_t value) { return std::to_string(value); };
  if (moe.chosen > moe.routed()) {
    source.fail(keys.chosen, number(moe.chosen) + " is more than " + source.name(keys.experts) +
                                 ", which is " + number(moe.routed()));
  }
  if (moe.experts * layers > kMaxExpertsOfModel) {
    source.fail(keys.experts, number(moe.experts) + " in each of " + number(layers) +
                                  " layers are more than " + number(kMaxExpertsOfModel));
  }
  if (moe.groups == 1 && moe.chosen_groups == 1) return;
  if (moe.routed() % moe.groups != 0 || moe.routed() / moe.groups < 2) {
    source.fail(keys.groups, number(moe.groups) + " groups do not suit " + number(moe.routed()) + " experts");
  }
  if (moe.chosen_groups > moe.groups) {
    source.fail(keys.chosen_groups, number(moe.chosen_groups) + " is more than " + source.name(keys.groups) +
                                        ", which is " + number(moe.groups));
  }
  if (moe.chosen > moe.routed() / moe.groups * moe.chosen_groups) {
    source.fail(keys.chosen, number(moe.chosen) + " is more than the experts of the " +
                                 number(moe.chosen_groups) + " groups that are chosen");
  }
}

std::vector<bool> read_expert_layers(const ConfigSource& source, std::size_t layers,
                                     bool has_placement_keys) {
  std::vector<bool> out(layers, true);
  if (const GgufSource* gguf = source.gguf()) {
    for (std::size_t i = 0; i < layers; ++i) {
      out[i] = find_tensor(*gguf, i, "ffn_gate_inp.weight") != nullptr ||
               find_tensor(*gguf, i, "ffn_up.weight") == nullptr;
    }
    return out;
  }
  if (!has_placement_keys) return out;
  if (integer_at(source, kExpertCount) == 0) return std::vector<bool>(layers, false);
  const std::size_t step = source.count_or(kSparseStep, kMaxLayers, 1);
  for (std::size_t i = 0; i < layers; ++i) out[i] = (i + 1) % step == 0;
  if (const auto dense = source.hf()->text().find(kDenseLayers.hf)) {
    for (const std::int64_t layer : dense->integers()) {
      if (layer >= 0 && static_cast<std::uint64_t>(layer) < layers)
        out[static_cast<std::size_t>(layer)] = false;
    }
  }
  return out;
}

}  // namespace reprise::models
