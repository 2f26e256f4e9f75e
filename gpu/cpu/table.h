// make_table(): assembles the kernel table that a source exports, compiled for that source's instruction set.

#pragma once

#include "gpu/cpu/attention.h"
#include "gpu/cpu/formats/formats.h"
#include "gpu/cpu/recurrences.h"
#include "gpu/cpu/rows.h"

namespace reprise::gpu {
namespace {

constexpr Kernels make_table(Isa isa, std::span<const FormatKernels> formats) {
  return {.isa = isa,
          .formats = formats,
          .to_bf16 = to_bf16,
          .rms_norm = rms_norm,
          .l2_norm = l2_norm,
          .add = add,
          .add_scaled = add_scaled,
          .scale = scale,
          .soft_cap = soft_cap,
          .relu_squared = relu_squared,
          .swiglu = swiglu,
          .gate_silu = gate_silu,
          .gate_gelu = gate_gelu,
          .gate_sigmoid = gate_sigmoid,
          .rope = rope,
          .delta_gates = delta_gates,
          .causal_conv = causal_conv,
          .delta_rule = delta_rule,
          .channel_gates = channel_gates,
          .kda_rule = kda_rule,
          .selective_scan = selective_scan,
          .mamba2 = mamba2,
          .attention = attention,
          .route_experts = route_experts,
          .block_diagonal = block_diagonal,
          .rg_lru = rg_lru,
          .token_shift = token_shift,
          .wkv_gates = wkv_gates,
          .wkv_rule = wkv_rule,
          .wkv_output = wkv_output,
          .layer_norm = layer_norm,
          .to_tanh = to_tanh,
          .to_sigmoid = to_sigmoid};
}

}  // namespace
}  // namespace reprise::gpu
