#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "models/cpu/linear.h"
#include "models/cpu/part.h"
#include "models/cpu/slot_exports.h"
#include "models/files/load_error.h"
#include "models/model_files.h"
#include "models/parts/rwkv.h"
#include "models/weight_tensors.h"

namespace reprise::models::cpu {
namespace {

constexpr std::size_t kElementsAtOnce = 64;

/// Token shift: x [step.rows, size] -> [mixes, step.rows, size] in scratch memory, with mix [mixes, size].
/// `offset`: the previous row's offset in the slot.
float* shift_tokens(Step& step, const float* x, const std::vector<float>& mix, std::size_t size,
                    std::size_t offset) {
  const std::size_t mixes = mix.size() / size;
  const std::size_t table = step.rows * size;
  float* out = step.scratch.floats(mixes * table);
  run_with_exports(step, {offset, size * sizeof(float)}, [&] {
    for (const StepSlice& slice : step.slices) {
      const std::size_t first = slice.first_row * size;
      const gpu::TokenShift shift{.previous = reinterpret_cast<float*>(slice.sequence->slot_data() + offset),
                                  .x = x + first,
                                  .mix = mix.data(),
                                  .y = out + first,
                                  .size = size,
                                  .mixes = mixes,
                                  .tokens = slice.rows,
                                  .table = table};
      step.threads.for_ranges(size, kElementsAtOnce, [&](std::size_t begin, std::size_t end) {
        step.kernels.token_shift(shift, begin, end);
      });
    }
  });
  return out;
}

class TimeMix : public Part {
 public:
  TimeMix(const TimeMixSpec& spec, const ModelFiles& files, StateLayout& state);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override;
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"RWKV time mix"};
    return kSite;
  }

 private:
  /// Low-rank pair: W2 act(W1 x) + bias.
  struct Pair {
    enum class Between : std::uint8_t { kNothing, kTanh, kSigmoid };

    Pair(const ModelFiles& files, const std::string& name);
    /// x [step.rows, hidden] -> [step.rows, hidden] in scratch memory.
    float* apply(Step& step, LinearInput& x, Between between) const;

    Linear first;
    Linear second;
  };

  void recur(Step& step, const gpu::WkvRule& rows) const;

  const TimeMixSpec spec_;
  std::vector<float> mix_;  // [6, hidden]
  Linear r_;
  Linear k_;
  Linear v_;
  Linear o_;
  Pair decay_;
  Pair rate_;
  std::optional<Pair> value_;
  Pair gate_;
  std::vector<float> key_scale_;  // [hidden], like the next four
  std::vector<float> rate_scale_;
  std::vector<float> bonus_;
  std::vector<float> norm_;
  std::vector<float> norm_bias_;
  TimeMixOffsets offsets_;
};

class ChannelMix : public Part {
 public:
  ChannelMix(const ChannelMixSpec& spec, const ModelFiles& files, StateLayout& state);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    for (const Linear* linear : {&key_, &value_}) linear->prepare(how);
  }
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"RWKV channel mix"};
    return kSite;
  }

 private:
  const ChannelMixSpec spec_;
  std::vector<float> mix_;  // [hidden]
  Linear key_;
  Linear value_;
  std::size_t row_;  // offset in the slot of the previous row
};

TimeMix::Pair::Pair(const ModelFiles& files, const std::string& name)
    : first(files, name + "1"), second(files, name + "2") {}

float* TimeMix::Pair::apply(Step& step, LinearInput& x, Between between) const {
  float* out = step.scratch.floats(step.rows * second.outputs());
  const std::size_t mark = step.scratch.mark();
  const std::size_t count = step.rows * first.outputs();
  float* inner = step.scratch.floats(count);  // [rows, rank]
  first.apply(step, x, inner);
  if (between == Between::kTanh) step.kernels.to_tanh(inner, count);
  if (between == Between::kSigmoid) step.kernels.to_sigmoid(inner, count);
  second.apply(step, inner, step.rows, out);
  step.scratch.reset(mark);
  return out;
}

TimeMix::TimeMix(const TimeMixSpec& spec, const ModelFiles& files, StateLayout& state)
    : spec_(spec),
      mix_(load_vector(files, spec.name + ".mix")),
      r_(files, spec.name + ".r_proj"),
      k_(files, spec.name + ".k_proj"),
      v_(files, spec.name + ".v_proj"),
      o_(files, spec.name + ".o_proj"),
      decay_(files, spec.name + ".w"),
      rate_(files, spec.name + ".a"),
      gate_(files, spec.name + ".g"),
      key_scale_(load_vector(files, spec.name + ".k_k")),
      rate_scale_(load_vector(files, spec.name + ".k_a")),
      bonus_(load_vector(files, spec.name + ".r_k")),
      norm_(load_vector(files, spec.name + ".g_norm.weight")),
      norm_bias_(load_vector(files, spec.name + ".g_norm.bias")),
      offsets_(declare_state(spec, state)) {
  if (!spec.is_first) value_.emplace(files, spec.name + ".v");
  if (spec.head_dim % gpu::kLanes != 0) {
    throw LoadError(files.path(), "wkv.head_size", "must be a multiple of 8");
  }
}

void TimeMix::prepare(const Preparation& how) const {
  for (const Linear* linear : {&r_, &k_, &v_, &o_}) linear->prepare(how);
  for (const Pair* pair : {&decay_, &rate_, &gate_, value_ ? &*value_ : &gate_}) {
    pair->first.prepare(how);
    pair->second.prepare(how);
  }
}

/// `rows` describes all rows of the step, without a state.
void TimeMix::recur(Step& step, const gpu::WkvRule& rows) const {
  const std::size_t heads = spec_.heads();
  const std::size_t size = spec_.head_dim;
  step.threads.for_parts(step.slices.size() * heads, [&](std::size_t part) {
    const StepSlice& slice = step.slices[part / heads];
    const std::size_t head = part % heads;
    auto* state = reinterpret_cast<float*>(slice.sequence->slot_data() + offsets_.matrices);
    gpu::WkvRule rule = rows;
    rule.state = state + head * size * size;
    rule.tokens = slice.rows;
    const std::size_t first = slice.first_row * spec_.hidden + head * size;
    for (const float** input : {&rule.r, &rule.k, &rule.v, &rule.decay, &rule.key, &rule.rate})
      *input += first;
    rule.out += first;
    step.kernels.wkv_rule(rule);
  });
}

void TimeMix::apply(Step& step, const float* x, float* y) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t rows = step.rows;
  const std::size_t hidden = spec_.hidden;
  const std::size_t count = rows * hidden;
  const std::size_t heads = spec_.heads();
  REPRISE_CHECK(step.first_values != nullptr, "the step has no buffer for the first layer's values");

  const float* mixed = shift_tokens(step, x, mix_, hidden, offsets_.row);
  LinearInput for_r(mixed, rows);
  LinearInput for_decay(mixed + count, rows);
  LinearInput for_k(mixed + 2 * count, rows);
  LinearInput for_v(mixed + 3 * count, rows);
  LinearInput for_rate(mixed + 4 * count, rows);
  LinearInput for_gate(mixed + 5 * count, rows);
  float* r = step.scratch.floats(count);  // all [rows, heads, head_dim]
  float* k = step.scratch.floats(count);
  float* v = step.scratch.floats(count);
  float* key = step.scratch.floats(count);
  float* out = step.scratch.floats(count);
  r_.apply(step, for_r, r);
  k_.apply(step, for_k, k);
  v_.apply(step, for_v, v);
  float* decay = decay_.apply(step, for_decay, Pair::Between::kTanh);
  float* rate = rate_.apply(step, for_rate, Pair::Between::kNothing);
  float* gate = gate_.apply(step, for_gate, Pair::Between::kSigmoid);
  const float* mix = value_ ? value_->apply(step, for_v, Pair::Between::kNothing) : nullptr;
  if (spec_.is_first) std::memcpy(step.first_values, v, count * sizeof(float));

  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    const std::size_t at = begin * hidden;
    step.kernels.wkv_gates({.decay = decay + at,
                            .rate = rate + at,
                            .k = k + at,
                            .key = key + at,
                            .v = v + at,
                            .mix = mix == nullptr ? nullptr : mix + at,
                            .first = step.first_values + at,
                            .key_scale = key_scale_.data(),
                            .rate_scale = rate_scale_.data(),
                            .rows = end - begin,
                            .heads = heads,
                            .head_dim = spec_.head_dim});
  });
  const gpu::WkvRule whole{.state = nullptr,
                           .head_dim = spec_.head_dim,
                           .tokens = 0,
                           .r = r,
                           .k = k,
                           .v = v,
                           .decay = decay,
                           .key = key,
                           .rate = rate,
                           .stride = hidden,
                           .out = out};
  run_with_exports(step, {offsets_.matrices, hidden * spec_.head_dim * sizeof(float)},
                   [&] { recur(step, whole); });
  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    const std::size_t at = begin * hidden;
    step.kernels.layer_norm({.x = out + at,
                             .weight = norm_.data(),
                             .bias = norm_bias_.data(),
                             .eps = kTimeMixNormEps,
                             .y = out + at,
                             .rows = (end - begin) * heads,
                             .groups = heads,
                             .size = spec_.head_dim});
    step.kernels.wkv_output({.y = out + at,
                             .r = r + at,
                             .k = k + at,
                             .v = v + at,
                             .bonus = bonus_.data(),
                             .gate = gate + at,
                             .rows = end - begin,
                             .heads = heads,
                             .head_dim = spec_.head_dim});
  });
  o_.apply(step, out, rows, y);
  step.scratch.reset(mark);
}

ChannelMix::ChannelMix(const ChannelMixSpec& spec, const ModelFiles& files, StateLayout& state)
    : spec_(spec),
      mix_(load_vector(files, spec.name + ".mix")),
      key_(files, spec.name + ".key"),
      value_(files, spec.name + ".value"),
      row_(declare_state(spec, state)) {}

void ChannelMix::apply(Step& step, const float* x, float* y) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t size = spec_.intermediate;
  const float* mixed = shift_tokens(step, x, mix_, spec_.hidden, row_);
  float* inner = step.scratch.floats(step.rows * size);  // [rows, intermediate]
  key_.apply(step, mixed, step.rows, inner);
  step.threads.for_ranges(step.rows, 1, [&](std::size_t begin, std::size_t end) {
    step.kernels.relu_squared(inner + begin * size, (end - begin) * size);
  });
  value_.apply(step, inner, step.rows, y);
  step.scratch.reset(mark);
}

}  // namespace

std::unique_ptr<Part> make_part(const TimeMixSpec& spec, BuildContext& context) {
  return std::make_unique<TimeMix>(spec, context.files, context.state);
}

std::unique_ptr<Part> make_part(const ChannelMixSpec& spec, BuildContext& context) {
  return std::make_unique<ChannelMix>(spec, context.files, context.state);
}

}  // namespace reprise::models::cpu
