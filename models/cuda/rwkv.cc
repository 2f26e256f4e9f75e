#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "gpu/cuda/recurrence/rwkv.h"
#include "gpu/cuda/rows/rows.h"
#include "models/cuda/part.h"
#include "models/weight_tensors.h"

namespace reprise::models::cuda {
namespace {

class TimeMix : public PartOfRows<TimeMix> {
 public:
  TimeMix(const TimeMixSpec& spec, const ModelFiles& files, WeightStore& weights, StateLayout& state);
  std::size_t workspace(const StepSize& size) const override;
  void admit(const Admission& admission, gc::GemmOutput output) const override;
  /// Excludes the low-rank pairs, whose inputs may be padded.
  std::vector<const DeviceLinear*> adaptable() const override { return {&r_, &k_, &v_, &out_}; }

 private:
  friend class PartOfRows<TimeMix>;
  static constexpr int kMixes = 6;

  /// Low-rank pair: W2 act(W1 x) + bias.
  struct Pair {
    Pair(const std::string& name, WeightStore& weights);
    std::size_t inner_bytes(const StepSize& size) const;
    /// y f32 [padded rows, outputs]
    template <class Row>
    void apply(const CudaStep& step, const Row* x, gc::PairFunction between, float* y) const;
    void admit(const Admission& admission) const;

    DeviceLinear first;
    DeviceLinear second;  // inputs may be padded
  };
  template <class Row>
  void apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const;
  std::vector<const Pair*> pairs() const;

  gc::WkvShape shape_;
  DeviceLinear r_;
  DeviceLinear k_;
  DeviceLinear v_;
  DeviceLinear out_;
  Pair decay_;
  Pair rate_;
  Pair gate_;
  std::optional<Pair> value_;   // none: first layer
  const float* mix_ = nullptr;  // [kMixes, hidden]; the others [hidden]
  const float* key_scale_ = nullptr;
  const float* rate_scale_ = nullptr;
  const float* bonus_ = nullptr;
  const float* norm_ = nullptr;
  const float* norm_bias_ = nullptr;
  std::size_t row_offset_ = 0;  // offset in the slot
};

class ChannelMix : public PartOfRows<ChannelMix> {
 public:
  ChannelMix(const ChannelMixSpec& spec, const ModelFiles& files, WeightStore& weights, StateLayout& state);
  std::size_t workspace(const StepSize& size) const override;
  void admit(const Admission& admission, gc::GemmOutput output) const override;
  std::vector<const DeviceLinear*> adaptable() const override { return {&key_, &value_}; }

 private:
  friend class PartOfRows<ChannelMix>;
  template <class Row>
  void apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const;

  DeviceLinear key_;
  DeviceLinear value_;
  const float* mix_;        // [hidden]
  std::size_t row_offset_;  // offset in the slot
};

TimeMix::Pair::Pair(const std::string& name, WeightStore& weights)
    : first(weights.linear({name + "1"})),
      second(weights.linear({name + "2"}, WeightStore::Inputs::kFilledUp)) {}

/// Returns the workspace bytes between the two GEMMs.
std::size_t TimeMix::Pair::inner_bytes(const StepSize& size) const {
  return Workspace::rounded(size.padded() * static_cast<std::size_t>(first.weight.rows) * sizeof(float)) +
         Workspace::rounded(size.padded() * static_cast<std::size_t>(second.weight.columns) * size.element());
}

template <class Row>
void TimeMix::Pair::apply(const CudaStep& step, const Row* x, gc::PairFunction between, float* y) const {
  const std::size_t mark = step.workspace.mark();
  const std::size_t rows = step.size.padded();
  auto* made = step.workspace.take<float>(rows * static_cast<std::size_t>(first.weight.rows));
  auto* inner = step.workspace.take<Row>(rows * static_cast<std::size_t>(second.weight.columns));
  step.multiply(x, first, made, gc::GemmOutput::kF32);
  gc::activate_rows(made, step.size.rows, first.weight.rows, between, inner, second.weight.columns,
                    step.stream);
  step.multiply(inner, second, y, gc::GemmOutput::kF32);
  step.workspace.reset(mark);
}

void TimeMix::Pair::admit(const Admission& admission) const {
  admission.admit(first, gc::GemmOutput::kF32);
  admission.admit(second, gc::GemmOutput::kF32);
}

TimeMix::TimeMix(const TimeMixSpec& spec, const ModelFiles& files, WeightStore& weights, StateLayout& state)
    : r_(weights.linear({spec.name + ".r_proj"})),
      k_(weights.linear({spec.name + ".k_proj"})),
      v_(weights.linear({spec.name + ".v_proj"})),
      out_(weights.linear({spec.name + ".o_proj"})),
      decay_(spec.name + ".w", weights),
      rate_(spec.name + ".a", weights),
      gate_(spec.name + ".g", weights) {
  if (!spec.is_first) value_.emplace(spec.name + ".v", weights);
  for (const Pair* pair : pairs()) {
    REPRISE_CHECK(pair->first.weight.rows <= pair->second.weight.columns,
                  "the first matrix of a low-rank pair has more rows than the second has columns");
  }
  const TimeMixOffsets offsets = declare_state(spec, state);
  row_offset_ = offsets.row;
  shape_ = {.heads = static_cast<int>(spec.heads()),
            .head_dim = static_cast<int>(spec.head_dim),
            .state_offset = offsets.matrices};
  const auto vector = [&](const char* name) { return weights.vector(load_vector(files, spec.name + name)); };
  mix_ = vector(".mix");
  key_scale_ = vector(".k_k");
  rate_scale_ = vector(".k_a");
  bonus_ = vector(".r_k");
  norm_ = vector(".g_norm.weight");
  norm_bias_ = vector(".g_norm.bias");
}

std::vector<const TimeMix::Pair*> TimeMix::pairs() const {
  std::vector<const Pair*> out{&decay_, &rate_, &gate_};
  if (value_) out.push_back(&*value_);
  return out;
}

std::size_t TimeMix::workspace(const StepSize& size) const {
  constexpr std::size_t kTables = 9;  // f32 buffers
  const std::size_t elements = size.padded() * static_cast<std::size_t>(shape_.size());
  std::size_t inner = 0;
  for (const Pair* pair : pairs()) inner = std::max(inner, pair->inner_bytes(size));
  return kTables * Workspace::rounded(elements * sizeof(float)) +
         Workspace::rounded(kMixes * elements * size.element()) +
         Workspace::rounded(elements * size.element()) + inner;
}

template <class Row>
void TimeMix::apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const {
  Workspace& workspace = step.workspace;
  const std::size_t mark = workspace.mark();
  const std::size_t elements = step.size.padded() * static_cast<std::size_t>(shape_.size());
  REPRISE_CHECK(step.first_values != nullptr, "the step has no buffer for the first layer's values");
  auto* mixed = workspace.take<Row>(kMixes * elements);
  float* tables[9];
  for (float*& table : tables) table = workspace.take<float>(elements);
  auto& [r, k, v, decay, rate, gate, mix, key, made] = tables;
  auto* finished = workspace.take<Row>(elements);
  gc::token_shift(step.batch,
                  gc::TokenShiftPass<Row>{.x = x.rows<Row>(),
                                          .size = shape_.size(),
                                          .mix = mix_,
                                          .mixes = kMixes,
                                          .y = mixed,
                                          .table = elements,
                                          .state_offset = row_offset_,
                                          .exports = step.exports},
                  step.stream);
  const Row* const for_r = mixed;
  const Row* const for_decay = mixed + elements;
  const Row* const for_k = mixed + 2 * elements;
  const Row* const for_v = mixed + 3 * elements;
  const Row* const for_rate = mixed + 4 * elements;
  const Row* const for_gate = mixed + 5 * elements;
  step.multiply(for_r, r_, r, gc::GemmOutput::kF32);
  step.multiply(for_k, k_, k, gc::GemmOutput::kF32);
  step.multiply(for_v, v_, v, gc::GemmOutput::kF32);
  decay_.apply(step, for_decay, gc::PairFunction::kTanh, decay);
  rate_.apply(step, for_rate, gc::PairFunction::kNone, rate);
  gate_.apply(step, for_gate, gc::PairFunction::kSigmoid, gate);
  if (value_) value_->apply(step, for_v, gc::PairFunction::kNone, mix);
  gc::wkv(shape_, step.batch,
          gc::WkvPass<Row>{.r = r,
                           .decay = decay,
                           .rate = rate,
                           .k = k,
                           .v = v,
                           .key = key,
                           .mix = value_ ? mix : nullptr,
                           .first = step.first_values,
                           .key_scale = key_scale_,
                           .rate_scale = rate_scale_,
                           .norm = norm_,
                           .norm_bias = norm_bias_,
                           .norm_eps = kTimeMixNormEps,
                           .bonus = bonus_,
                           .gate = gate,
                           .made = made,
                           .out = finished,
                           .exports = step.exports},
          step.stream);
  step.multiply(finished, out_, to.y, to.how);
  workspace.reset(mark);
}

void TimeMix::admit(const Admission& admission, gc::GemmOutput output) const {
  for (const DeviceLinear* linear : {&r_, &k_, &v_}) {
    admission.admit(*linear, gc::GemmOutput::kF32);
  }
  for (const Pair* pair : pairs()) pair->admit(admission);
  admission.admit(out_, output);
}

ChannelMix::ChannelMix(const ChannelMixSpec& spec, const ModelFiles& files, WeightStore& weights,
                       StateLayout& state)
    : key_(weights.linear({spec.name + ".key"})),
      value_(weights.linear({spec.name + ".value"})),
      mix_(weights.vector(load_vector(files, spec.name + ".mix"))),
      row_offset_(declare_state(spec, state)) {}

std::size_t ChannelMix::workspace(const StepSize& size) const {
  const auto width = static_cast<std::size_t>(key_.weight.columns + key_.weight.rows);
  return size.padded() * width * size.element() + 2 * Workspace::kAlignment;
}

template <class Row>
void ChannelMix::apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const {
  const std::size_t mark = step.workspace.mark();
  const std::size_t rows = step.size.padded();
  auto* mixed = step.workspace.take<Row>(rows * static_cast<std::size_t>(key_.weight.columns));
  auto* inner = step.workspace.take<Row>(rows * static_cast<std::size_t>(key_.weight.rows));
  gc::token_shift(step.batch,
                  gc::TokenShiftPass<Row>{.x = x.rows<Row>(),
                                          .size = key_.weight.columns,
                                          .mix = mix_,
                                          .mixes = 1,
                                          .y = mixed,
                                          .table = 0,
                                          .state_offset = row_offset_,
                                          .exports = step.exports},
                  step.stream);
  step.multiply(mixed, key_, inner, kRowsOf<Row>);
  gc::relu_squared(inner, step.size.rows, key_.weight.rows, step.stream);
  step.multiply(inner, value_, to.y, to.how);
  step.workspace.reset(mark);
}

void ChannelMix::admit(const Admission& admission, gc::GemmOutput output) const {
  admission.admit(key_, gc::GemmOutput::kBf16);
  admission.admit(value_, output);
}

}  // namespace

std::unique_ptr<Part> make_part(const TimeMixSpec& spec, BuildContext& context) {
  return std::make_unique<TimeMix>(spec, context.files, context.weights, context.state);
}

std::unique_ptr<Part> make_part(const ChannelMixSpec& spec, BuildContext& context) {
  return std::make_unique<ChannelMix>(spec, context.files, context.weights, context.state);
}

}  // namespace reprise::models::cuda
