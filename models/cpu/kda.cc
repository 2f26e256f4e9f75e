#include <cmath>

#include "models/cpu/linear.h"
#include "models/cpu/part.h"
#include "models/cpu/slot_exports.h"
#include "models/files/load_error.h"
#include "models/model_files.h"
#include "models/parts/kda.h"
#include "models/weight_tensors.h"

namespace reprise::models::cpu {
namespace {

constexpr std::size_t kKdaChannelsAtOnce = 64;

class Kda : public Part {
 public:
  Kda(const KdaSpec& spec, const ModelFiles& files, StateLayout& state);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override;
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"Kimi Delta Attention"};
    return kSite;
  }

 private:
  /// Projection and convolution of q, k or v.
  struct Branch {
    Branch(const ModelFiles& files, const std::string& name);

    Linear proj;
    std::vector<float> taps;  // [conv_kernel, size]
  };

  void convolve(Step& step, std::size_t branch, const float* inputs, float* outputs) const;
  /// Computes y [rows, size] = wide(narrow(x)).
  void through(Step& step, LinearInput& x, const Linear& narrow, const Linear& wide, float* y) const;
  void recur(Step& step, const float* const (&qkv)[3], const float* decay, const float* beta,
             float* out) const;

  const KdaSpec spec_;
  std::vector<Branch> branches_;  // q, k, v
  Linear b_;
  Linear f_a_;
  Linear f_b_;
  Linear g_a_;
  Linear g_b_;
  Linear out_;
  std::vector<float> rate_;     // [heads]: exp(A_log)
  std::vector<float> dt_bias_;  // [size]
  RmsNorm norm_;                // [head_dim]
  KdaOffsets offsets_;
};

Kda::Branch::Branch(const ModelFiles& files, const std::string& name)
    : proj(files, name + "_proj"), taps(load_conv_taps(files, name + "_conv1d.weight")) {}

Kda::Kda(const KdaSpec& spec, const ModelFiles& files, StateLayout& state)
    : spec_(spec),
      b_(files, spec.name + ".b_proj"),
      f_a_(files, spec.name + ".f_a_proj"),
      f_b_(files, spec.name + ".f_b_proj"),
      g_a_(files, spec.name + ".g_a_proj"),
      g_b_(files, spec.name + ".g_b_proj"),
      out_(files, spec.name + ".o_proj"),
      rate_(load_kda_rates(files, spec)),
      dt_bias_(load_vector(files, spec.name + ".dt_bias")),
      norm_(files, {spec.name + ".o_norm", spec.head_dim, spec.norm}),
      offsets_(declare_state(spec, state)) {
  if (spec_.head_dim % gpu::kLanes != 0) {
    throw LoadError(files.path(), "linear_head_dim", "must be a multiple of 8");
  }
  for (const char* which : {".q", ".k", ".v"}) branches_.emplace_back(files, spec.name + which);
}

void Kda::prepare(const Preparation& how) const {
  for (const Branch& branch : branches_) branch.proj.prepare(how);
  for (const Linear* linear : {&b_, &f_a_, &f_b_, &g_a_, &g_b_, &out_}) linear->prepare(how);
}

/// inputs, outputs [rows, size]
void Kda::convolve(Step& step, std::size_t branch, const float* inputs, float* outputs) const {
  const std::size_t size = spec_.size();
  for (const StepSlice& slice : step.slices) {
    auto* state = reinterpret_cast<float*>(slice.sequence->slot_data() + offsets_.conv);
    const gpu::CausalConv conv{.state = state + branch * spec_.conv_state_size(),
                               .weight = branches_[branch].taps.data(),
                               .x = inputs + slice.first_row * size,
                               .y = outputs + slice.first_row * size,
                               .channels = size,
                               .taps = spec_.conv_kernel,
                               .tokens = slice.rows};
    step.threads.for_ranges(size, kKdaChannelsAtOnce, [&](std::size_t begin, std::size_t end) {
      step.kernels.causal_conv(conv, begin, end);
    });
  }
}

void Kda::through(Step& step, LinearInput& x, const Linear& narrow, const Linear& wide, float* y) const {
  float* inner = step.scratch.floats(x.rows() * spec_.head_dim);  // kept: x may cache forms after it
  narrow.apply(step, x, inner);
  wide.apply(step, inner, x.rows(), y);
}

/// q, k, v, decay, out [rows, heads, head_dim]; beta [rows, heads]
void Kda::recur(Step& step, const float* const (&qkv)[3], const float* decay, const float* beta,
                float* out) const {
  const std::size_t heads = spec_.heads;
  step.threads.for_parts(step.slices.size() * heads, [&](std::size_t part) {
    const StepSlice& slice = step.slices[part / heads];
    const std::size_t head = part % heads;
    const std::size_t first = slice.first_row * spec_.size() + head * spec_.head_dim;
    auto* state = reinterpret_cast<float*>(slice.sequence->slot_data() + offsets_.matrices);
    step.kernels.kda_rule({.state = state + head * spec_.head_dim * spec_.head_dim,
                           .key_dim = spec_.head_dim,
                           .value_dim = spec_.head_dim,
                           .tokens = slice.rows,
                           .q = qkv[0] + first,
                           .k = qkv[1] + first,
                           .v = qkv[2] + first,
                           .decay = decay + first,
                           .stride = spec_.size(),
                           .beta = beta + slice.first_row * heads + head,
                           .beta_stride = heads,
                           .out = out + first});
  });
}

void Kda::apply(Step& step, const float* x, float* y) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t rows = step.rows;
  const std::size_t heads = spec_.heads;
  const std::size_t size = spec_.size();
  const std::size_t head = spec_.head_dim;
  float* mixed = step.scratch.floats(rows * size);
  float* decay = step.scratch.floats(rows * size);
  float* gate = step.scratch.floats(rows * size);
  float* beta = step.scratch.floats(rows * heads);
  float* qkv[3];
  for (float*& one : qkv) one = step.scratch.floats(rows * size);
  LinearInput input(x, rows);
  for (std::size_t i = 0; i < 3; ++i) {
    branches_[i].proj.apply(step, input, mixed);
    const std::size_t bytes = spec_.conv_state_size() * sizeof(float);
    run_with_exports(step, {offsets_.conv + i * bytes, bytes}, [&] { convolve(step, i, mixed, qkv[i]); });
  }
  b_.apply(step, input, beta);
  through(step, input, f_a_, f_b_, decay);
  through(step, input, g_a_, g_b_, gate);
  const float scale = 1.0F / std::sqrt(static_cast<float>(head));
  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      float* q = qkv[0] + row * size;
      float* k = qkv[1] + row * size;
      step.kernels.l2_norm(q, kKdaUnitEps, scale, q, heads, head, head);
      step.kernels.l2_norm(k, kKdaUnitEps, 1.0F, k, heads, head, head);
      step.kernels.channel_gates({.decay = decay + row * size,
                                  .beta = beta + row * heads,
                                  .rate = rate_.data(),
                                  .dt_bias = dt_bias_.data(),
                                  .heads = heads,
                                  .size = head});
    }
  });
  run_with_exports(step, {offsets_.matrices, spec_.state_size() * sizeof(float)}, [&] {
    recur(step, {qkv[0], qkv[1], qkv[2]}, decay, beta, mixed);
  });
  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    float* first = mixed + begin * size;
    norm_.apply_here(step.kernels, first, (end - begin) * heads, first);
    step.kernels.gate_sigmoid(gate + begin * size, first, (end - begin) * size);
  });
  out_.apply(step, mixed, rows, y);
  step.scratch.reset(mark);
}

}  // namespace

std::unique_ptr<Part> make_part(const KdaSpec& spec, BuildContext& context) {
  return std::make_unique<Kda>(spec, context.files, context.state);
}

}  // namespace reprise::models::cpu
