#pragma once
// A model described, whatever its family and whatever device will compute it: sizes, layers, embedding and
// head, the tensors it consists of, and what its authors say about tokens and sampling. Read from a Hugging
// Face config.json or from GGUF metadata by the family that the source names (models/arch/families.h), and
// validated: a ModelConfig that exists describes a model that can be built.
//
// Sizes are counted in elements, heads, layers or tokens, never in bytes.
//
// Threading: a plain value; immutable once it has been read.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/sampling.h"
#include "models/arch/families.h"
#include "models/files/tensor_spec.h"
#include "models/parts/layer_spec.h"

namespace reprise::models {

class Gguf;
class JsonPlace;

struct TokenIds {
  std::optional<std::int32_t> bos;
  std::optional<std::int32_t> pad;
  std::vector<std::int32_t> eos;  // any of them ends a generation
};

struct ModelConfig {
  std::string architecture;  // name of the family
  std::size_t hidden = 0;
  std::size_t vocab = 0;
  std::size_t context_length = 0;  // positions it was made for

  // The way of a token: a row of the embedding, a norm where there is one, the layers, the final norm, a product
  // with the head. Both matrices are [vocab, hidden] and named without ".weight"; where they are tied they are
  // the same.
  std::string embedding = "embed_tokens";
  std::optional<NormSpec> embedding_norm{};  // of its row; none: as it is
  std::vector<LayerSpec> layers;
  NormSpec final_norm;
  std::string head = "lm_head";
  bool head_may_differ = false;  // tied as it is, a head that a folder has beside the embedding counts

  // Numbers of the whole model. x = multiplier * row of the embedding; logits = soft_cap(multiplier * head(x)),
  // soft_cap(l) = cap tanh(l / cap).
  float embedding_multiplier = 1;
  float logit_multiplier = 1;
  std::optional<float> logit_cap{};  // positive; none: as they are

  std::vector<TensorSpec> tensors;  // all that the above name, in the order of use
  std::vector<std::string>
      ignored{};  // tensors of a layer that files have and no part needs, as GGUF names them

  TokenIds tokens;
  SamplingWishes sampling;  // what the model's authors recommend

  bool tied() const { return head == embedding; }

  /// `generation` is generation_config.json where there is one; its token ids win over config.json's. Throws
  /// LoadError.
  static ModelConfig from_hf(const JsonPlace& config, const JsonPlace* generation = nullptr,
                             std::span<const Family> known = families());

  /// By the tensors it also learns what the metadata leaves out: vocabulary, ties, biases, rope factors.
  /// Throws LoadError.
  static ModelConfig from_gguf(const Gguf& file, std::span<const Family> known = families());
};

}  // namespace reprise::models
