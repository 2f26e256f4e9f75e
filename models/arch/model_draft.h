#pragma once
// A model in the making: a family adds layer after layer, and the tensors that they name go into the list of
// tensors beside them, in the order in which they are named.
//
//   draft.add_layer({{
//       {.norm = draft.norm("input_layernorm", "attn_norm"), .parts = {draft.part("self_attn", attention)}},
//       {.norm = draft.norm("post_attention_layernorm", "ffn_norm"), .parts = {draft.part("mlp", mlp)}},
//   }});
//
// Names are those inside of a layer: "self_attn" becomes "layers.3.self_attn", "attn_norm" of GGUF becomes
// "blk.3.attn_norm".
//
// Threading: one thread.

#include <string>
#include <utility>

#include "models/arch/config.h"

namespace reprise::models {

class ModelDraft {
 public:
  /// `sizes` has everything but layers, final norm and tensors; `norm` is the kind of all norms.
  ModelDraft(ModelConfig sizes, const NormKind& norm) : model_(std::move(sizes)), norm_(norm) {
    tensors_.add(model_.embedding + ".weight", {model_.vocab, model_.hidden}, "token_embd.weight");
  }

  /// Before the first layer.
  void add_embedding_norm(const std::string& name, const std::string& gguf) {
    model_.embedding_norm = NormSpec{name, model_.hidden, norm_};
    tensors_.add_norm(*model_.embedding_norm, gguf);
  }

  /// A norm over the residual stream, for the layer to come. Some GGUF files call it `gguf` without ".weight".
  NormSpec norm(const std::string& name, const std::string& gguf) {
    NormSpec out{hf_layer() + "." + name, model_.hidden, norm_};
    tensors_.add_norm(out, gguf_layer() + "." + gguf);
    tensors_.also_called(gguf_layer() + "." + gguf);
    return out;
  }

  /// A part of the layer to come; `in_gguf` says how a GGUF file has it, where that is not self-evident.
  template <class Spec, class... InGguf>
  PartSpec part(const std::string& name, Spec spec, const InGguf&... in_gguf) {
    spec.name = hf_layer() + "." + name;
    add_tensors(tensors_, spec, gguf_layer(), in_gguf...);
    return spec;
  }

  void add_layer(LayerSpec layer) { model_.layers.push_back(std::move(layer)); }

  /// With the final norm, by its name in Hugging Face's files, and, unless it is tied, the head.
  ModelConfig finish(const std::string& final_norm = "norm") {
    model_.final_norm = {final_norm, model_.hidden, norm_};
    tensors_.add_norm(model_.final_norm, "output_norm");
    if (!model_.tied()) {
      tensors_.add(model_.head + ".weight", {model_.vocab, model_.hidden}, "output.weight");
    }
    model_.tensors = tensors_.take();
    return std::move(model_);
  }

 private:
  std::string hf_layer() const { return "layers." + std::to_string(model_.layers.size()); }
  std::string gguf_layer() const { return "blk." + std::to_string(model_.layers.size()); }

  ModelConfig model_;
  NormKind norm_;
  TensorList tensors_;
};

}  // namespace reprise::models
