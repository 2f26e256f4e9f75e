#pragma once
// The tensors of a model in the making, in the order of use. GGUF names are llama.cpp's.
//
// Threading: one thread.

#include <string>
#include <utility>
#include <vector>

#include "models/files/tensor_spec.h"
#include "models/parts/norm_spec.h"

namespace reprise::models {

class TensorList {
 public:
  void add(TensorSpec spec) { specs_.push_back(std::move(spec)); }
  void add(std::string name, Shape shape, std::string gguf, const GgufLayout& layout = {}) {
    add({.name = std::move(name), .shape = std::move(shape), .gguf = {{std::move(gguf)}, {}, layout}});
  }

  /// A matrix [rows, columns] and, if it has one, its bias. Names without ".weight".
  void add_linear(const std::string& name, std::size_t rows, std::size_t columns, const std::string& gguf,
                  bool bias = false, const GgufLayout& layout = {}) {
    add(name + ".weight", {rows, columns}, gguf + ".weight", layout);
    if (bias) add(name + ".bias", {rows}, gguf + ".bias", layout);
  }

  /// The weight of a norm, and its bias where it has one; GGUF has it with the 1 of zero-centred ones added. Name
  /// without ".weight".
  void add_norm(const NormSpec& norm, const std::string& gguf) {
    GgufLayout layout;
    if (norm.kind.offset == 1) layout.values = GgufLayout::Values::kPlusOne;
    add(norm.name + ".weight", {norm.size}, gguf + ".weight", layout);
    if (norm.kind.centred) add(norm.name + ".bias", {norm.size}, gguf + ".bias");
  }

  /// The last one also goes by this name in GGUF files.
  void also_called(std::string gguf) { specs_.back().gguf.names.push_back(std::move(gguf)); }

  /// The one that was added last.
  TensorSpec& last() { return specs_.back(); }

  std::vector<TensorSpec> take() { return std::move(specs_); }

 private:
  std::vector<TensorSpec> specs_;
};

}  // namespace reprise::models
