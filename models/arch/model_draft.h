#pragma once
// Builder of a ModelConfig: a family adds layers in order, and the tensors they name are appended to the
// model's tensor list.
//
//   draft.add_layer({{
//       {.norm = draft.norm("input_layernorm", "attn_norm"), .parts = {draft.part("self_attn", attention)}},
//       {.norm = draft.norm("post_attention_layernorm", "ffn_norm"), .parts = {draft.part("mlp", mlp)}},
//   }});
//
// Names are relative to the layer: "self_attn" becomes "layers.3.self_attn", GGUF's "attn_norm" becomes
// "blk.3.attn_norm".

#include <string>
#include <utility>

#include "models/arch/config.h"

namespace reprise::models {

class ModelDraft {
 public:
  /// `sizes` has everything but layers, final norm and tensors; `norm` is used for all norms.
  ModelDraft(ModelConfig sizes, const NormKind& norm) : model_(std::move(sizes)), norm_(norm) {
    tensors_.add(model_.embedding + ".weight", {model_.vocab, model_.hidden}, "token_embd.weight");
  }

  /// Requires: called before the first layer is added.
  void add_embedding_norm(const std::string& name, const std::string& gguf) {
    model_.embedding_norm = NormSpec{name, model_.hidden, norm_};
    tensors_.add_norm(*model_.embedding_norm, gguf);
  }

  /// A norm of the residual in the next layer. Some GGUF files name it without ".weight".
  NormSpec norm(const std::string& name, const std::string& gguf) {
    NormSpec out{hf_layer() + "." + name, model_.hidden, norm_};
    tensors_.add_norm(out, gguf_layer() + "." + gguf);
    tensors_.also_called(gguf_layer() + "." + gguf);
    return out;
  }

  /// A part of the next layer; `in_gguf` says how GGUF files store it, if that needs saying.
  template <class Spec, class... InGguf>
  PartSpec part(const std::string& name, Spec spec, const InGguf&... in_gguf) {
    spec.name = hf_layer() + "." + name;
    add_tensors(tensors_, spec, gguf_layer(), in_gguf...);
    return spec;
  }

  void add_layer(LayerSpec layer) { model_.layers.push_back(std::move(layer)); }

  /// Adds the final norm, by its Hugging Face name, and the LM head unless tied, and returns the model.
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
