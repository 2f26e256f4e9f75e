#pragma once
// The mixer of Mamba-1: a short causal convolution, then a selective scan, whose step size, input and output
// weights depend on the token, with a separate state per channel.
//
//   x, z = in_proj(u);  x = silu(conv1d(x))
//   dt, B, C = x_proj(x), each normalized if there are norms;  dt = softplus(dt_proj(dt))
//   h = exp(-exp(A_log) dt) h + dt B x;  y = h C + D x;  out_proj(y silu(z))
//
// Tensors: `name`.in_proj [2 inner, hidden], conv1d [inner, 1, conv_kernel], usually with a bias, x_proj
// [step_rank + 2 state_size, inner], dt_proj [inner, step_rank] with a bias, A_log [inner, state_size], D
// [inner], out_proj [hidden, inner]; with weighted norms dt_layernorm [step_rank], b_layernorm and
// c_layernorm [state_size].
// State per sequence, f32: the last inputs of the convolution [conv_kernel - 1, inner], and h, in groups of
// kLanes channels (gpu/kernels.h).

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/kernels.h"
#include "models/parts/part.h"

namespace reprise::models {

class ModelFiles;

/// Separate norms of dt, B and C.
enum class ScanNorms : std::uint8_t { kNone, kWeightless, kWeighted };

struct SelectiveScanSpec {
  std::string name{};
  std::size_t hidden = 0;
  std::size_t inner = 0;  // channels
  std::size_t state_size = 0;
  std::size_t step_rank = 0;
  std::size_t conv_kernel = 0;
  bool conv_bias = true;
  bool in_bias = false;
  bool out_bias = false;
  ScanNorms norms = ScanNorms::kNone;
  NormKind norm{};  // used if `norms` is not kNone

  std::size_t x_proj_rows() const { return step_rank + 2 * state_size; }
  std::size_t conv_state_size() const { return inner * (conv_kernel - 1); }
  /// Values of h, with the last group of channels padded.
  std::size_t state_numbers() const {
    return (inner + gpu::kLanes - 1) / gpu::kLanes * gpu::kLanes * state_size;
  }

  bool operator==(const SelectiveScanSpec&) const = default;
};

void add_tensors(TensorList& tensors, const SelectiveScanSpec& scan, const std::string& block);

struct SelectiveScanOffsets {
  std::size_t conv;
  std::size_t state;
};

SelectiveScanOffsets declare_state(const SelectiveScanSpec& scan, StateLayout& state);

struct SelectiveScanParameters {
  std::vector<float> conv;       // [taps, inner]
  std::vector<float> conv_bias;  // [inner]; empty: none
  std::vector<float> a;          // -exp(A_log) in the layout of gpu/kernels.h: [groups, state_size, kLanes]
  std::vector<float> skip;       // D [inner]
  // Weights of the norms; all empty: no norms.
  std::vector<float> dt_norm;  // [step_rank]
  std::vector<float> b_norm;   // [state_size]
  std::vector<float> c_norm;   // [state_size]

  bool has_norms() const { return !dt_norm.empty(); }
};

/// Throws LoadError.
SelectiveScanParameters load_selective_scan_parameters(const ModelFiles& files,
                                                       const SelectiveScanSpec& spec);

std::optional<std::string> gpu_refusal(const SelectiveScanSpec& scan);
PartSizes describe(const SelectiveScanSpec& scan);

}  // namespace reprise::models
