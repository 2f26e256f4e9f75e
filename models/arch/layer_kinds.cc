#include "models/arch/layer_kinds.h"

#include <optional>

#include "models/arch/config_source.h"

namespace reprise::models {
namespace {

constexpr Key kInterval{"full_attention_interval", "full_attention_interval"};
constexpr Key kRecurrentLayers{"", "attention.recurrent_layers"};
constexpr Key kKvHeadsOfLayers{"", "attention.head_count_kv"};
constexpr Key kBlocks{"", "block_count"};

LayerKind kind_of(const JsonLocation& word) {
  if (word.text() == "full_attention") return LayerKind::kFullAttention;
  if (word.text() == "linear_attention") return LayerKind::kLinearAttention;
  word.fail("unknown layer type '" + word.text() + "'");
}

// Kinds in `layer_types`; nullopt if config.json has no such key.
std::optional<std::vector<LayerKind>> named_kinds(const HfSource& hf, std::size_t layers) {
  const std::optional<JsonLocation> words = hf.text().find("layer_types");
  if (!words) return std::nullopt;
  if (words->size() != layers) {
    words->fail("has " + std::to_string(words->size()) + " entries for " + std::to_string(layers) +
                " layers");
  }
  std::vector<LayerKind> out;
  for (std::size_t i = 0; i < layers; ++i) out.push_back(kind_of(words->at(i)));
  return out;
}

// Kinds by `attention.recurrent_layers`, or by layers without key-value heads.
std::optional<std::vector<LayerKind>> named_kinds(const GgufSource& gguf, std::size_t layers) {
  const auto from_array = [&](const Key& key, const auto& values, auto is_linear) {
    const std::size_t blocks = gguf.count(kBlocks, kMaxLayers);
    if (values.size() != layers && values.size() != blocks) {
      gguf.fail(
          key, "has " + std::to_string(values.size()) + " entries for " + std::to_string(blocks) + " layers");
    }
    std::vector<LayerKind> out;
    for (std::size_t i = 0; i < layers; ++i) {
      out.push_back(is_linear(values[i]) ? LayerKind::kLinearAttention : LayerKind::kFullAttention);
    }
    return out;
  };
  if (gguf.is_array(kRecurrentLayers)) {
    return from_array(kRecurrentLayers, gguf.metadata().booleans(gguf.full(kRecurrentLayers)),
                      [](bool recurrent) { return recurrent; });
  }
  if (gguf.is_array(kKvHeadsOfLayers)) {
    return from_array(kKvHeadsOfLayers, gguf.metadata().integers(gguf.full(kKvHeadsOfLayers)),
                      [](std::int64_t heads) { return heads == 0; });
  }
  return std::nullopt;
}

}  // namespace

std::vector<LayerKind> read_layer_kinds(const ConfigSource& source, std::size_t layers,
                                        std::size_t interval) {
  auto named =
      source.hf() != nullptr ? named_kinds(*source.hf(), layers) : named_kinds(*source.gguf(), layers);
  if (named) return std::move(*named);
  const std::size_t step = source.count_or(kInterval, kMaxLayers, interval);
  std::vector<LayerKind> out(layers, LayerKind::kLinearAttention);
  for (std::size_t i = step; i <= layers; i += step) out[i - 1] = LayerKind::kFullAttention;
  return out;
}

void refuse_linear_attention(const ConfigSource& source, std::size_t layers) {
  if (source.hf() == nullptr) return;
  const auto named = named_kinds(*source.hf(), layers);
  for (std::size_t i = 0; named && i < layers; ++i) {
    if ((*named)[i] == LayerKind::kFullAttention) continue;
    source.hf()->text().at("layer_types").at(i).fail("this architecture has no linear attention");
  }
}

}  // namespace reprise::models
