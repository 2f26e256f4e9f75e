#pragma once
// Which tensors a text model consists of: for each its canonical name and shape, and what llama.cpp calls it
// and did to it. One list per architecture; nothing else in the loader knows a tensor's name.
//
// Canonical names and layouts are Hugging Face's, without the prefix of the text model:
// "embed_tokens.weight", "layers.3.linear_attn.in_proj_qkv.weight", "norm.weight", "lm_head.weight".
//
// Threading: pure functions.

#include <string>
#include <vector>

#include "models/arch/config.h"
#include "models/files/dtype.h"
#include "models/files/gguf_layout.h"

namespace reprise::models {

struct TensorSpec {
  std::string name;
  Shape shape;
  std::vector<std::string> gguf_names;  // the first that is there counts
  GgufLayout gguf_layout;               // what the converter did
};

struct GgufTraits {
  /// Value heads that share a key head stand apart (llama.cpp's order), not side by side (Hugging Face's).
  bool tiled_value_heads = true;
};

/// Everything the model needs, in the order of use. A tied lm_head is not in it.
std::vector<TensorSpec> text_tensors(const ModelConfig& config, const GgufTraits& traits = {});

}  // namespace reprise::models
