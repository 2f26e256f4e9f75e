#pragma once
// The operations of a forward pass with their shapes, and a table of functions per CPU instruction set.
// Tensors are row-major and contiguous unless a stride is given.
//
// Exactness: each output row (or head, or channel) is computed from its own inputs alone, in an order of
// additions fixed by the model's dimensions. So its bits depend neither on the number of rows, nor on how
// work is split into ranges, nor on the batch. Sums over k use kLanes interleaved partial sums: lane l takes
// k = l, l + kLanes, ... in ascending order with fused multiply-adds, zeros in place of missing elements; the
// lanes are then folded in halves. All tables are bitwise identical, except in the `fast` products of float
// formats (gpu/weights/products.h), which are reproducible within one table only.
//
// Threading: thread-safe on disjoint outputs.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "gpu/compute.h"
#include "gpu/expert_routing.h"
#include "gpu/weights/products.h"
#include "gpu/weights/weight.h"

namespace reprise::gpu {

inline constexpr std::size_t kLanes = 8;
inline constexpr std::size_t kPageTokens = 64;
inline constexpr std::size_t kMaxAttentionHead = 512;  // elements
inline constexpr std::size_t kAttentionRows = 4;       // query rows that share one read of a page

/// Causal attention of consecutive query rows of one sequence, for one KV head. Rows in one call share the
/// reads of keys and values; no row's bits change.
struct AttentionRows {
  const float* q;            // first row, [group, head_dim]
  float* out;                // first row, [group, value_dim]
  std::size_t rows = 1;      // each attends to one KV entry more than the previous one
  std::size_t q_stride = 0;  // floats between rows
  std::size_t out_stride = 0;
  std::size_t group;  // query heads that share the key/value head
  std::size_t head_dim;
  std::size_t value_dim = 0;  // elements of a V row to use, at most kMaxAttentionHead; 0: head_dim
  std::size_t length;         // KV entries up to the first row's last one, from the first page on
  std::size_t skipped = 0;    // leading entries of the first page to leave out (sliding window)
  float scale;
  const std::byte* const* pages;  // [ceil((length + rows - 1) / kPageTokens)]
  std::size_t
      k_offset;  // of this head's K in a page: kPageTokens rows of head_dim elements (gpu/state/kv_rows.h)
  std::size_t v_offset;  // of this head's V in a page, same layout
  KvType kv;
};

/// The gated delta rule (Gated DeltaNet) of one value head over consecutive tokens of one sequence:
///   S = exp(g) S;  S += k (beta (v - k^T S));  o = q^T S
struct DeltaRule {
  float* state;  // S [key_dim, value_dim], updated
  std::size_t key_dim;
  std::size_t value_dim;  // a multiple of kLanes
  std::size_t tokens;
  const float* q;  // [tokens] rows of key_dim, `stride` apart; normalized and scaled
  const float* k;  // [tokens] rows of key_dim, `stride` apart; normalized
  const float* v;  // [tokens] rows of value_dim, `stride` apart
  std::size_t stride;
  const float* g;     // [tokens], `gate_stride` apart; log of the decay
  const float* beta;  // [tokens], `gate_stride` apart
  std::size_t gate_stride;
  float* out;  // [tokens] rows of value_dim, `out_stride` apart
  std::size_t out_stride;
};

/// The gates of KdaRule for all heads of one token, computed in place:
///   decay_i = exp(-rate softplus(f_i + dt_bias_i));  beta = sigmoid(b)
struct ChannelGates {
  float* decay;          // [heads, size]: in f, out decay
  float* beta;           // [heads]: in b, out beta
  const float* rate;     // [heads], positive
  const float* dt_bias;  // [heads, size]
  std::size_t heads;
  std::size_t size;  // key dimension of a head
};

/// The delta rule with one decay per key channel (Kimi Delta Attention), of one head over consecutive tokens
/// of one sequence:
///   S = diag(decay) S;  S += k (beta (v - k^T S));  o = q^T S
struct KdaRule {
  float* state;  // S [key_dim, value_dim], updated
  std::size_t key_dim;
  std::size_t value_dim;  // a multiple of kLanes
  std::size_t tokens;
  const float* q;      // [tokens] rows of key_dim, `stride` apart; normalized and scaled
  const float* k;      // [tokens] rows of key_dim, `stride` apart; normalized
  const float* v;      // [tokens] rows of value_dim, `stride` apart
  const float* decay;  // [tokens] rows of key_dim, `stride` apart
  std::size_t stride;
  const float* beta;  // [tokens], `beta_stride` apart
  std::size_t beta_stride;
  float* out;  // [tokens] rows of value_dim, `stride` apart
};

/// The selective scan of Mamba-1, with state_size state elements per channel, over consecutive tokens of one
/// sequence:
///   dt = softplus(step);  h = exp(dt A) h + (dt x) B;  y = (h C + skip x) silu(gate)
/// h and A interleave groups of kLanes channels, [groups, state_size, kLanes], so that a vector holds one
/// element of each channel and a group's state is contiguous. The last group is padded with zeros, which stay
/// zeros.
struct SelectiveScan {
  float* state;       // h [groups, state_size, kLanes], updated
  const float* a;     // A [groups, state_size, kLanes], not above 0
  const float* skip;  // D [channels]
  std::size_t channels;
  std::size_t state_size;
  std::size_t tokens;
  const float* x;     // [tokens, channels]
  const float* step;  // [tokens, channels]: the projection's output, including its bias
  const float* b;     // [tokens] rows of state_size, `bc_stride` apart
  const float* c;     // as b
  std::size_t bc_stride;
  const float* gate;  // [tokens] rows of channels, `gate_stride` apart
  std::size_t gate_stride;
  float* y;  // [tokens, channels]
};

/// The recurrence of Mamba-2 (state space duality), of one head over consecutive tokens of one sequence:
///   dt = clamp(softplus(dt_scale * step + dt_bias), dt_min, dt_max)
///   S = exp(-decay dt) S + B (dt x)^T;  y = C^T S + skip x
struct Mamba2 {
  float* state;  // S [state_size, head_dim], updated
  std::size_t state_size;
  std::size_t head_dim;
  std::size_t tokens;
  const float* x;  // [tokens] rows of head_dim, `stride` apart
  const float* b;  // [tokens] rows of state_size, `stride` apart
  const float* c;  // as b
  std::size_t stride;
  const float* step;  // [tokens], `step_stride` apart: the projection's output
  std::size_t step_stride;
  float dt_scale;
  float dt_bias;
  float dt_min;
  float dt_max;  // may be infinite
  float decay;   // -A > 0
  float skip;    // D
  float* y;      // [tokens] rows of head_dim, `y_stride` apart
  std::size_t y_stride;
};

/// y = x W + bias with block-diagonal W. Sums start from the bias and add the inputs in ascending order.
struct BlockDiagonal {
  const float* x;       // [rows, blocks, size]
  const float* weight;  // [blocks, inputs: size, outputs: size]
  const float* bias;    // [blocks, size]
  float* y;             // [rows, blocks, size]
  std::size_t rows;
  std::size_t blocks;
  std::size_t size;
};

/// The Real-Gated Linear Recurrent Unit over consecutive tokens of one sequence, channel by channel:
///   log_a = rate sigmoid(recurrence_gate)
///   h = exp(log_a) h + x sigmoid(input_gate) sqrt(1 - exp(2 log_a));  out = h
/// At the first token of a sequence: h = x sigmoid(input_gate).
struct RgLru {
  float* state;                  // h [channels], updated
  const float* x;                // [tokens, channels]
  const float* input_gate;       // [tokens, channels]
  const float* recurrence_gate;  // [tokens, channels]
  const float* rate;             // [channels]: at most 0
  float* out;                    // [tokens, channels]
  std::size_t channels;
  std::size_t tokens;
  bool begins;  // true: the first token here is the first of its sequence
};

/// The token shift of RWKV-7: mixes each row with the previous one, for elements [begin, end) of consecutive
/// tokens of one sequence:
///   y_m = x_t + (x_{t-1} - x_t) mix_m, for each m in [0, mixes)
struct TokenShift {
  float* previous;   // [size]: the row before the first token; replaced by the last row
  const float* x;    // [tokens, size]
  const float* mix;  // [mixes, size]
  float* y;          // [mixes] matrices [tokens, size], `table` floats apart
  std::size_t size;
  std::size_t mixes;
  std::size_t tokens;
  std::size_t table;
};

/// Prepares the inputs of WkvRule, in place, from the projections of x:
///   decay = exp(-e^-0.5 sigmoid(decay));  rate = sigmoid(rate);  key = k key_scale / |k key_scale| per head
///   k = k (1 + (rate - 1) rate_scale);  v = v + (first - v) sigmoid(mix)
struct WkvGates {
  float* decay;  // [rows, heads, head_dim], as all the others except the scales
  float* rate;
  float* k;
  float* key;  // output only
  float* v;
  const float* mix;         // null: v is not changed
  const float* first;       // v of the first layer
  const float* key_scale;   // [heads, head_dim]
  const float* rate_scale;  // [heads, head_dim]
  std::size_t rows;
  std::size_t heads;
  std::size_t head_dim;
};

/// The recurrence of RWKV-7, of one head over consecutive tokens of one sequence:
///   S = diag(decay) S + (rate key) (-key^T S) + k v^T;  out = r^T S
/// where |key| = 1. r, k, v, decay, key and rate: [tokens] rows of head_dim, `stride` apart.
struct WkvRule {
  float* state;          // S [head_dim of keys, head_dim of values], updated
  std::size_t head_dim;  // a multiple of kLanes
  std::size_t tokens;
  const float* r;
  const float* k;
  const float* v;
  const float* decay;
  const float* key;
  const float* rate;
  std::size_t stride;
  float* out;  // as r
};

/// The output of RWKV-7's time mixing, from its normalized recurrence output y, per head:
///   y = (y + v sum_i(r_i k_i bonus_i)) gate
struct WkvOutput {
  float* y;  // [rows, heads, head_dim], as are r, k, v and gate
  const float* r;
  const float* k;
  const float* v;
  const float* bonus;  // [heads, head_dim]
  const float* gate;   // null: 1
  std::size_t rows;
  std::size_t heads;
  std::size_t head_dim;
};

/// y = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias, for each of `rows` rows of `size`.
struct LayerNorm {
  const float* x;       // [rows, size]
  const float* weight;  // [groups, size]: row i uses group i mod groups
  const float* bias;    // [groups, size]
  float eps;
  float* y;  // [rows, size]; may be x
  std::size_t rows;
  std::size_t groups;
  std::size_t size;
};

/// A depthwise causal convolution over time, for channels [begin, end) of consecutive tokens of one sequence:
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
  bool silu = true;             // false: y is the sum without silu
};

struct Kernels {
  Isa isa;

  std::span<const FormatKernels> formats;

  /// Returns null if the format is not supported.
  const FormatKernels* find(const WeightFormat& format) const;
  /// Requires: the format is supported.
  const FormatKernels& format(const WeightFormat& format) const;

  /// Rounds to nearest even.
  void (*to_bf16)(const float* x, std::uint16_t* y, std::size_t count);

  /// y = x / sqrt(mean(x^2) + eps) * (offset + w), for `rows` rows of `size` elements, `stride` apart in x
  /// and y.
  void (*rms_norm)(const float* x, const float* w, float offset, float eps, float* y, std::size_t rows,
                   std::size_t size, std::size_t stride);
  /// y = x / sqrt(sum(x^2) + eps) * scale, layout as for rms_norm.
  void (*l2_norm)(const float* x, float eps, float scale, float* y, std::size_t rows, std::size_t size,
                  std::size_t stride);
  /// y += x
  void (*add)(const float* x, float* y, std::size_t count);
  /// y += scale * x, with fused multiply-adds
  void (*add_scaled)(const float* x, float scale, float* y, std::size_t count);
  /// x = factor * x
  void (*scale)(float factor, float* x, std::size_t count);
  /// x = cap * tanh(x / cap), cap > 0; non-finite elements stay non-finite.
  void (*soft_cap)(float cap, float* x, std::size_t count);
  /// x = max(x, 0)^2
  void (*relu_squared)(float* x, std::size_t count);
  /// y = silu(gate) * up
  void (*swiglu)(const float* gate, const float* up, float* y, std::size_t count);
  /// y = silu(gate) * y
  void (*gate_silu)(const float* gate, float* y, std::size_t count);
  /// y = gelu(gate) * y, gelu by the tanh approximation
  void (*gate_gelu)(const float* gate, float* y, std::size_t count);
  /// y = sigmoid(gate) * y
  void (*gate_sigmoid)(const float* gate, float* y, std::size_t count);
  /// Rotates pairs (i, i + half) of the first 2 * half elements of one head. cosine, sine: [half].
  void (*rope)(float* head, const float* cosine, const float* sine, std::size_t half);
  /// The gates of DeltaRule, arrays [heads]: g = -decay softplus(a + dt_bias), decay = exp(a_log), beta =
  /// sigmoid(b).
  void (*delta_gates)(const float* a, const float* b, const float* decay, const float* dt_bias, float* g,
                      float* beta, std::size_t heads);

  void (*causal_conv)(const CausalConv& conv, std::size_t begin, std::size_t end);
  void (*delta_rule)(const DeltaRule& rule);
  void (*channel_gates)(const ChannelGates& gates);
  void (*kda_rule)(const KdaRule& rule);
  /// Channels [begin, end), multiples of kLanes; `end` may also be the number of channels.
  void (*selective_scan)(const SelectiveScan& scan, std::size_t begin, std::size_t end);
  void (*mamba2)(const Mamba2& mamba2);
  void (*attention)(const AttentionRows& row);
  /// gpu/expert_routing.h
  void (*route_experts)(const ExpertRouting& routing);

  /// Blocks [begin, end).
  void (*block_diagonal)(const BlockDiagonal& product, std::size_t begin, std::size_t end);
  /// Channels [begin, end).
  void (*rg_lru)(const RgLru& unit, std::size_t begin, std::size_t end);

  /// Elements [begin, end) of all rows.
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

/// Returns the instruction set and the formats with a fast product, such as "neon, BF16".
std::string name_of(const Kernels& kernels);

/// Requires is_available(isa).
const Kernels& cpu_kernels(Isa isa);

/// Returns the CPU-supported format of this name, or null. All tables support the same formats.
const WeightFormat* format_named(std::string_view name);

}  // namespace reprise::gpu
