#pragma once
// Description of a model, independent of family and device: sizes, layers, embedding and LM head, the tensors
// it consists of, and the authors' settings for tokens and sampling. Read from a Hugging Face config.json or
// GGUF metadata by the family the source names (models/arch/families.h), and validated: every ModelConfig
// describes a model that can be built.
//
// Sizes count elements, heads, layers or tokens, never bytes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/sampling.h"
#include "models/arch/families.h"
#include "models/arch/token_ids.h"
#include "models/files/tensor_spec.h"
#include "models/parts/layer_spec.h"

namespace reprise::models {

class Gguf;
class JsonLocation;

struct ModelConfig {
  std::string architecture;  // name of the family
  std::size_t hidden = 0;
  std::size_t vocab = 0;
  std::size_t context_length = 0;  // maximum positions the model was trained for

  // Forward pass: embedding row, optional norm, layers, final norm, LM head. Embedding and head are [vocab,
  // hidden], named without ".weight"; if they are tied, the names are equal.
  std::string embedding = "embed_tokens";
  std::optional<NormSpec> embedding_norm{};  // applied to the embedding row; nullopt: none
  std::vector<LayerSpec> layers;
  NormSpec final_norm;
  std::string head = "lm_head";
  bool head_may_differ = false;  // although tied, use an LM head that a folder has in addition

  // x = embedding_multiplier * row; logits = soft_cap(logit_multiplier * head(x)), soft_cap(l) = cap tanh(l /
  // cap).
  float embedding_multiplier = 1;
  float logit_multiplier = 1;
  std::optional<float> logit_cap{};  // positive; nullopt: no soft cap

  std::vector<TensorSpec> tensors;     // all tensors named above, in order of use
  std::vector<std::string> ignored{};  // GGUF names of layer tensors that files have but no part needs

  TokenIds tokens;
  SamplingOverrides sampling;  // recommended by the model's authors

  bool tied() const { return head == embedding; }

  /// `generation` is generation_config.json or null; its token ids override config.json's. Throws LoadError.
  static ModelConfig from_hf(const JsonLocation& config, const JsonLocation* generation = nullptr,
                             std::span<const Family> known = families());

  /// The file's tensors supply what the metadata omits: vocabulary size, tied embeddings, biases, rope
  /// factors. Throws LoadError.
  static ModelConfig from_gguf(const Gguf& file, std::span<const Family> known = families());
};

}  // namespace reprise::models
