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

#include "gpu/compute.h"
#include "gpu/expert_routing.h"
#include "gpu/products.h"
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

/// The delta rule with a decay for every channel of the keys (Kimi Delta Attention), of one head over consecutive tokens of
/// one sequence:
///   decay_i = exp(-rate softplus(f_i + dt_bias_i));  beta = sigmoid(b)
///   S = diag(decay) S;  S += k (beta (v - k^T S));  o = q^T S
/// ChannelGates: the gates of all heads, of one token. ChannelDeltaRule takes what they became.
struct ChannelGates {
  float* decay;          // [heads, size]: f, turned into the decay
  float* beta;           // [heads]: b, turned into beta
  const float* rate;     // [heads], positive
  const float* dt_bias;  // [heads, size]
  std::size_t heads;
  std::size_t size;  // of the keys of a head
};

struct ChannelDeltaRule {
  float* state;  // S [key_dim, value_dim], updated
  std::size_t key_dim;
  std::size_t value_dim;  // a multiple of kLanes
  std::size_t tokens;
  const float* q;      // [tokens] rows of key_dim, `stride` apart: normalised and scaled
  const float* k;      // as q: normalised
  const float* v;      // [tokens] rows of value_dim, `stride` apart
  const float* decay;  // [tokens] rows of key_dim, `stride` apart
  std::size_t stride;
  const float* beta;  // [tokens], `beta_stride` apart
  std::size_t beta_stride;
  float* out;  // [tokens] rows of value_dim, `stride` apart
};

/// The selective scan of Mamba-1: a state of state_size numbers for each channel, over consecutive tokens of one sequence:
///   dt = softplus(step);  h = exp(dt A) h + (dt x) B;  y = (h C + skip x) silu(gate)
/// h and A stand in groups of kLanes channels, [groups, state_size, kLanes]: the channels of a group side by side,
/// so that one vector has a number of each, and a group's state is one run of memory. Where channels are no
/// multiple of kLanes the last group is filled up with zeros, which stay zeros.
struct SelectiveScan {
  float* state;       // h [groups, state_size, kLanes], updated
  const float* a;     // A [groups, state_size, kLanes], not above 0
  const float* skip;  // D [channels]
  std::size_t channels;
  std::size_t state_size;
  std::size_t tokens;
  const float* x;     // [tokens, channels]
  const float* step;  // [tokens, channels]: as it was projected, with its bias
  const float* b;     // [tokens] rows of state_size, `bc_stride` apart
  const float* c;     // as b
  std::size_t bc_stride;
  const float* gate;  // [tokens] rows of channels, `gate_stride` apart
  std::size_t gate_stride;
  float* y;  // [tokens, channels]
};

/// The recurrence of Mamba-2 (state space duality): one head over consecutive tokens of one sequence:
///   dt = clamp(softplus(dt_scale * step + dt_bias), dt_min, dt_max)
///   S = exp(-decay dt) S + B (dt x)^T;  y = C^T S + skip x
struct Ssd {
  float* state;  // S [state_size, head_dim], updated
  std::size_t state_size;
  std::size_t head_dim;
  std::size_t tokens;
  const float* x;  // [tokens] rows of head_dim, `stride` apart
  const float* b;  // [tokens] rows of state_size, `stride` apart
  const float* c;  // as b
  std::size_t stride;
  const float* step;  // [tokens], `step_stride` apart: as it was projected
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

/// y = x W + bias, W a matrix for each block of a row. Sums run over the inputs upwards, from the bias.
struct BlockDiagonal {
  const float* x;       // [rows, blocks, size]
  const float* weight;  // [blocks, size of inputs, size of outputs]
  const float* bias;    // [blocks, size]
  float* y;             // [rows, blocks, size]
  std::size_t rows;
  std::size_t blocks;
  std::size_t size;
};

/// The Real-Gated Linear Recurrent Unit over consecutive tokens of one sequence, channel by channel:
///   log_a = rate sigmoid(recurrence_gate)
///   h = exp(log_a) h + x sigmoid(input_gate) sqrt(1 - exp(2 log_a));  out = h
/// At the first token of a sequence h is what comes in, without the root.
struct RgLru {
  float* state;                  // h [channels], updated
  const float* x;                // [tokens, channels]
  const float* input_gate;       // [tokens, channels]
  const float* recurrence_gate;  // [tokens, channels]
  const float* rate;             // [channels]: at most 0
  float* out;                    // [tokens, channels]
  std::size_t channels;
  std::size_t tokens;
  bool begins;  // the first of the tokens is the first of its sequence
};

/// RWKV-7: rows mixed with those before them, for elements [begin, end) of all tokens of one sequence:
///   y_m = x_t + (x_{t-1} - x_t) mix_m, for each of `mixes`
struct TokenShift {
  float* previous;   // [size]: the row before the first token, which is replaced by the last one
  const float* x;    // [tokens, size]
  const float* mix;  // [mixes, size]
  float* y;          // [mixes] tables of rows, `table` floats apart: [tokens, size] of each
  std::size_t size;
  std::size_t mixes;
  std::size_t tokens;
  std::size_t table;
};

/// What RWKV-7's recurrence takes, from the products with x:
///   decay = exp(-e^-0.5 sigmoid(decay));  rate = sigmoid(rate);  key = k key_scale / |k key_scale|, head by head
///   k = k (1 + (rate - 1) rate_scale);  v = v + (first - v) sigmoid(mix)
struct WkvGates {
  float* decay;  // [rows, heads, head_dim], as are all the others but for the scales
  float* rate;
  float* k;
  float* key;  // made
  float* v;
  const float* mix;         // null: v stays
  const float* first;       // v of the first layer
  const float* key_scale;   // [heads, head_dim]
  const float* rate_scale;  // [heads, head_dim]
  std::size_t rows;
  std::size_t heads;
  std::size_t head_dim;
};

/// The recurrence of RWKV-7, of one head over consecutive tokens of one sequence:
///   S = diag(decay) S + (rate key) (-key^T S) + k v^T;  out = r^T S
/// where key is of unit length. r, k, v, decay, key and rate: [tokens] rows of head_dim, `stride` apart.
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

/// What follows the recurrence of RWKV-7 and its norm: y = (y + v (r . k . bonus summed over the head)) gate
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
  const float* weight;  // [groups, size]: row i has those of group i mod groups
  const float* bias;    // [groups, size]
  float eps;
  float* y;  // [rows, size]; may be x
  std::size_t rows;
  std::size_t groups;
  std::size_t size;
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
