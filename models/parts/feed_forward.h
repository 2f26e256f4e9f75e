#pragma once
// Feed-forward parts: gated (SwiGLU, GeGLU), down(act(gate(x)) * up(x)), and ungated, down(relu(up(x))^2).
// They have no state.
//
// Tensors: `name`.gate_proj (gated only) and up_proj [intermediate, hidden], down_proj [hidden,
// intermediate].

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "models/parts/part.h"

namespace reprise::models {

/// Activation of the gate.
enum class Activation : std::uint8_t {
  kSilu,  // x sigmoid(x)
  kGelu,  // tanh approximation: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
};

struct SwiGluSpec {
  std::string name{};
  std::size_t hidden = 0;
  std::size_t intermediate = 0;
  bool bias = false;  // on all three matrices
  Activation activation = Activation::kSilu;
  float gate_multiplier = 1;  // factor on gate(x) before the activation

  bool operator==(const SwiGluSpec&) const = default;
};

void add_tensors(TensorList& tensors, const SwiGluSpec& part, const std::string& block);

/// Alternative name of the part in Hugging Face files: "block_sparse_moe".
struct SwiGluAlias {
  std::string name;
};

void add_tensors(TensorList& tensors, const SwiGluSpec& part, const std::string& block,
                 const SwiGluAlias& alias);

struct MlpSpec {
  std::string name{};
  std::size_t hidden = 0;
  std::size_t intermediate = 0;
  bool bias = false;  // on both matrices

  bool operator==(const MlpSpec&) const = default;
};

void add_tensors(TensorList& tensors, const MlpSpec& part, const std::string& block);

inline std::optional<std::string> gpu_refusal(const SwiGluSpec&) {
  return std::nullopt;
}
inline std::optional<std::string> gpu_refusal(const MlpSpec&) {
  return std::nullopt;
}
PartSizes describe(const SwiGluSpec& part);
PartSizes describe(const MlpSpec& part);

}  // namespace reprise::models
