#include "models/parts/feed_forward.h"
#include "models/cpu/linear.h"
#include "models/cpu/part.h"

namespace reprise::models::cpu {
namespace {

/// down(act(gate(x)) * up(x))
class SwiGlu : public Part {
 public:
  SwiGlu(const SwiGluSpec& spec, const ModelFiles& files);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    for (const Linear* linear : {&gate_, &up_, &down_}) linear->prepare(how);
  }
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"SwiGLU"};
    return kSite;
  }

 private:
  const Activation activation_;
  const float gate_multiplier_;
  Linear gate_;
  Linear up_;
  Linear down_;
};

SwiGlu::SwiGlu(const SwiGluSpec& spec, const ModelFiles& files)
    : activation_(spec.activation),
      gate_multiplier_(spec.gate_multiplier),
      gate_(files, spec.name + ".gate_proj"),
      up_(files, spec.name + ".up_proj"),
      down_(files, spec.name + ".down_proj") {}

void SwiGlu::apply(Step& step, const float* x, float* y) const {
  const std::size_t rows = step.rows;
  const std::size_t mark = step.scratch.mark();
  const std::size_t size = gate_.outputs();
  float* gate = step.scratch.floats(rows * size);  // [rows, intermediate]
  float* up = step.scratch.floats(rows * size);    // [rows, intermediate]
  LinearInput input(x, rows);
  gate_.apply(step, input, gate);
  up_.apply(step, input, up);
  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    const std::size_t count = (end - begin) * size;
    if (gate_multiplier_ != 1) step.kernels.scale(gate_multiplier_, gate + begin * size, count);
    if (activation_ == Activation::kGelu) {
      step.kernels.gate_gelu(gate + begin * size, up + begin * size, count);
    } else {
      step.kernels.swiglu(gate + begin * size, up + begin * size, up + begin * size, count);
    }
  });
  down_.apply(step, up, rows, y);
  step.scratch.reset(mark);
}

/// down(relu(up(x))^2)
class Mlp : public Part {
 public:
  Mlp(const MlpSpec& spec, const ModelFiles& files);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    up_.prepare(how);
    down_.prepare(how);
  }
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"MLP"};
    return kSite;
  }

 private:
  Linear up_;
  Linear down_;
};

Mlp::Mlp(const MlpSpec& spec, const ModelFiles& files)
    : up_(files, spec.name + ".up_proj"), down_(files, spec.name + ".down_proj") {}

void Mlp::apply(Step& step, const float* x, float* y) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t size = up_.outputs();
  float* inner = step.scratch.floats(step.rows * size);  // [rows, intermediate]
  up_.apply(step, x, step.rows, inner);
  step.threads.for_ranges(step.rows, 1, [&](std::size_t begin, std::size_t end) {
    step.kernels.relu_squared(inner + begin * size, (end - begin) * size);
  });
  down_.apply(step, inner, step.rows, y);
  step.scratch.reset(mark);
}

}  // namespace

std::unique_ptr<Part> make_part(const SwiGluSpec& spec, BuildContext& context) {
  return std::make_unique<SwiGlu>(spec, context.files);
}

std::unique_ptr<Part> make_part(const MlpSpec& spec, BuildContext& context) {
  return std::make_unique<Mlp>(spec, context.files);
}

}  // namespace reprise::models::cpu
