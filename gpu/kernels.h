#pragma once
// Every operation of a forward pass once, with its shapes. A table of functions for each set of CPU kernels.
//
// Exactness: each function computes each row (or head, or channel) of its output from that row's inputs
// alone, in an order of additions fixed by the sizes of the model. So the bits of a row do not depend on how
// many rows there are, how work is cut into ranges, or who else is in the batch. Sums over k run in kLanes
// interleaved partial sums, lane l taking k = l, l + kLanes, ... upwards with fused multiply-adds, missing
// elements being zeros, and are then folded in halves. All give the same bits in every table, but for the fast
// products of floats (gpu/products.h), which give them within one.
//
// Threading: any thread, on disjoint outputs. All tensors are row-major and contiguous unless a stride is
// given.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "gpu/channel_delta.h"
#include "gpu/compute.h"
#include "gpu/expert_routing.h"
#include "gpu/products.h"
#include "gpu/rg_lru.h"
#include "gpu/rwkv.h"
#include "gpu/selective_scan.h"
#include "gpu/ssd.h"
#include "gpu/weight.h"

namespace reprise::gpu {

inline constexpr std::size_t kLanes = 8;
inline constexpr std::size_t kPageTokens = 64;
inline constexpr std::size_t kLargestAttentionHead = 512;  // elements
inline constexpr std::size_t kAttentionRows = 4;  // of a slice that are worth being computed together

/// Rows of queries that follow each other against the keys and values of one sequence, for one key/value head. A row's bits do
/// not depend on how many there are; several bring what they share from memory once.
struct AttentionRows {
  const float* q;            // [group, head_dim], of the first row
  float* out;                // [group, value_dim], likewise
  std::size_t rows = 1;      // each with one position more to attend to than the one before
  std::size_t q_stride = 0;  // between two rows
  std::size_t out_stride = 0;
  std::size_t group;  // query heads that share the key/value head
  std::size_t head_dim;
  std::size_t value_dim = 0;  // at most kLargestAttentionHead; 0: head_dim. Of a row of V its first elements
  std::size_t length;         // positions that the first row attends to: those of pages, from 0
  std::size_t skipped = 0;    // of them that are not attended to, at the front of the first page
  float scale;
  const std::byte* const* pages;  // [ceil((length + rows - 1) / kPageTokens)]
  std::size_t k_offset;  // in a page: K of this head, kPageTokens rows of head_dim elements (gpu/kv_rows.h)
  std::size_t v_offset;  // in a page: V of this head, likewise
  KvType kv;
};

/// The gated delta rule of one value head over consecutive tokens of one sequence:
///   S = exp(g) S;  S += k (beta (v - k^T S));  o = q^T S
struct DeltaRule {
  float* state;  // S [key_dim, value_dim], updated
  std::size_t key_dim;
  std::size_t value_dim;  // a multiple of kLanes
  std::size_t tokens;
  const float* q;  // [tokens] rows of key_dim, `stride` apart: normalised and scaled
  const float* k;  // as q: normalised
  const float* v;  // [tokens] rows of value_dim, `stride` apart
  std::size_t stride;
  const float* g;     // [tokens], `gate_stride` apart: logarithm of the decay
  const float* beta;  // [tokens], `gate_stride` apart
  std::size_t gate_stride;
  float* out;  // [tokens] rows of value_dim, `out_stride` apart
  std::size_t out_stride;
};

/// A depthwise causal convolution over time, for channels [begin, end) of one sequence:
///   y_t = silu(bias + sum_j weight[j] x_{t - taps + 1 + j})
struct CausalConv {
  float* state;         // [taps - 1, channels]: the inputs before the first token, updated
  const float* weight;  // [taps, channels]
  const float* x;       // [tokens] rows of channels, `x_stride` apart
  float* y;             // [tokens, channels]
  std::size_t channels;
  std::size_t taps;
  std::size_t tokens;
  std::size_t x_stride = 0;     // 0: channels
  const float* bias = nullptr;  // [channels]; null: none
  bool silu = true;             // false: y is the sum itself
};

struct Kernels {
  Isa isa;

  /// Products with weights, and readers of their rows: one for each format that can be computed with.
  std::span<const FormatKernels> formats;

  /// Null: weights of this format cannot be computed with.
  const FormatKernels* find(const WeightFormat& format) const;
  /// One that is there.
  const FormatKernels& format(const WeightFormat& format) const;

  /// Rounds to nearest even. count elements.
  void (*to_bf16)(const float* x, std::uint16_t* y, std::size_t count);

  /// y = x / sqrt(mean(x^2) + eps) * (offset + w), for each of `rows` rows of `size` that stand `stride`
  /// apart in both.
  void (*rms_norm)(const float* x, const float* w, float offset, float eps, float* y, std::size_t rows,
                   std::size_t size, std::size_t stride);
  /// y = x / sqrt(sum(x^2) + eps) * scale, likewise.
  void (*l2_norm)(const float* x, float eps, float scale, float* y, std::size_t rows, std::size_t size,
                  std::size_t stride);
  /// y += x
  void (*add)(const float* x, float* y, std::size_t count);
  /// y += scale * x, fused
  void (*add_scaled)(const float* x, float scale, float* y, std::size_t count);
  /// x = factor * x
  void (*scale)(float factor, float* x, std::size_t count);
  /// x = cap * tanh(x / cap), cap > 0; what is not finite stays so.
  void (*soft_cap)(float cap, float* x, std::size_t count);
  /// x = max(x, 0)^2
  void (*relu_squared)(float* x, std::size_t count);
  /// y = silu(gate) * up
  void (*swiglu)(const float* gate, const float* up, float* y, std::size_t count);
  /// y = silu(gate) * y
  void (*gate_silu)(const float* gate, float* y, std::size_t count);
  /// y = gelu(gate) * y, gelu in its tanh form
  void (*gate_gelu)(const float* gate, float* y, std::size_t count);
  /// y = sigmoid(gate) * y
  void (*gate_sigmoid)(const float* gate, float* y, std::size_t count);
  /// Rotates pairs (i, i + half) of the first 2 * half elements of one head. cosine, sine: [half].
  void (*rope)(float* head, const float* cosine, const float* sine, std::size_t half);
  /// g = -exp(a_log) softplus(a + dt_bias), beta = sigmoid(b): [heads].
  void (*delta_gates)(const float* a, const float* b, const float* decay, const float* dt_bias, float* g,
                      float* beta, std::size_t heads);

  void (*causal_conv)(const CausalConv& conv, std::size_t begin, std::size_t end);
  void (*delta_rule)(const DeltaRule& rule);
  /// gpu/channel_delta.h
  void (*channel_gates)(const ChannelGates& gates);
  void (*channel_delta_rule)(const ChannelDeltaRule& rule);
  /// Channels [begin, end); begin is a multiple of kLanes, and so is end unless it is the last.
  void (*selective_scan)(const SelectiveScan& scan, std::size_t begin, std::size_t end);
  void (*ssd)(const Ssd& ssd);
  void (*attention)(const AttentionRows& row);
  /// gpu/expert_routing.h
  void (*route_experts)(const ExpertRouting& routing);

  /// Of blocks [begin, end).
  void (*block_diagonal)(const BlockDiagonal& product, std::size_t begin, std::size_t end);
  /// Of channels [begin, end).
  void (*rg_lru)(const RgLru& unit, std::size_t begin, std::size_t end);

  /// Of elements [begin, end) of the rows.
  void (*token_shift)(const TokenShift& shift, std::size_t begin, std::size_t end);
  void (*wkv_gates)(const WkvGates& gates);
  void (*wkv_rule)(const WkvRule& rule);
  void (*wkv_output)(const WkvOutput& output);
  void (*layer_norm)(const LayerNorm& norm);
  /// x = tanh(x)
  void (*to_tanh)(float* x, std::size_t count);
  /// x = sigmoid(x)
  void (*to_sigmoid)(float* x, std::size_t count);
};

/// The instruction set, and the formats for which it has a product of its own: "neon, BF16".
std::string name_of(const Kernels& kernels);

/// Requires is_available(isa).
const Kernels& cpu_kernels(Isa isa);

/// The format of this name, of those that the CPU computes with (every table has them all); null: there is none.
const WeightFormat* format_named(std::string_view name);

}  // namespace reprise::gpu
