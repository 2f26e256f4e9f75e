// Griffin's recurrent block on the CPU (models/parts/rg_lru.h). The gates' matrices are small and stay in f32
// in every compute setting.

#include <string>
#include <vector>

#include "models/cpu/linear.h"
#include "models/cpu/part.h"
#include "models/cpu/slot_exports.h"
#include "models/model_files.h"
#include "models/parts/rg_lru.h"
#include "models/weight_tensors.h"

namespace reprise::models::cpu {
namespace {

constexpr std::size_t kLruChannelsAtOnce = 64;

class RgLruBlock : public Part {
 public:
  RgLruBlock(const RgLruSpec& spec, const ModelFiles& files, StateLayout& state);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    for (const Linear* linear : {&y_, &x_, &out_}) linear->prepare(how);
  }
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"RG-LRU"};
    return kSite;
  }

 private:
  struct Gate {
    Gate(const ModelFiles& files, const std::string& name);

    std::vector<float> weight;  // [heads, inputs, outputs]
    std::vector<float> bias;    // [heads, outputs]
  };

  void convolve(Step& step, const float* inputs, float* outputs) const;
  void recur(Step& step, const float* u, const float* input_gate, const float* recurrence_gate,
             float* out) const;

  const RgLruSpec spec_;
  Linear y_;
  Linear x_;
  Linear out_;
  std::vector<float> conv_;       // [conv_kernel, width]
  std::vector<float> conv_bias_;  // [width]
  Gate input_gate_;
  Gate recurrence_gate_;
  std::vector<float> rate_;  // [width]: -8 softplus(recurrent_param)
  RgLruOffsets offsets_;
};

RgLruBlock::Gate::Gate(const ModelFiles& files, const std::string& name)
    : weight(load_vector(files, name + "_weight")), bias(load_vector(files, name + "_bias")) {}

RgLruBlock::RgLruBlock(const RgLruSpec& spec, const ModelFiles& files, StateLayout& state)
    : spec_(spec),
      y_(files, spec.name + ".linear_y"),
      x_(files, spec.name + ".linear_x"),
      out_(files, spec.name + ".linear_out"),
      conv_(load_conv_taps(files, spec.name + ".conv_1d.weight")),
      conv_bias_(load_vector(files, spec.name + ".conv_1d.bias")),
      input_gate_(files, spec.name + ".rg_lru.input_gate"),
      recurrence_gate_(files, spec.name + ".rg_lru.recurrent_gate"),
      rate_(load_rg_lru_rates(files, spec)),
      offsets_(declare_state(spec, state)) {}

/// inputs, outputs [rows, width]
void RgLruBlock::convolve(Step& step, const float* inputs, float* outputs) const {
  for (const StepSlice& slice : step.slices) {
    const std::size_t first = slice.first_row * spec_.width;
    const gpu::CausalConv conv{.state = reinterpret_cast<float*>(slice.sequence->slot_data() + offsets_.conv),
                               .weight = conv_.data(),
                               .x = inputs + first,
                               .y = outputs + first,
                               .channels = spec_.width,
                               .taps = spec_.conv_kernel,
                               .tokens = slice.rows,
                               .bias = conv_bias_.data(),
                               .silu = false};
    step.threads.for_ranges(spec_.width, kLruChannelsAtOnce, [&](std::size_t begin, std::size_t end) {
      step.kernels.causal_conv(conv, begin, end);
    });
  }
}

/// All arrays are [rows, width].
void RgLruBlock::recur(Step& step, const float* u, const float* input_gate, const float* recurrence_gate,
                       float* out) const {
  for (const StepSlice& slice : step.slices) {
    const std::size_t first = slice.first_row * spec_.width;
    const gpu::RgLru unit{.state = reinterpret_cast<float*>(slice.sequence->slot_data() + offsets_.h),
                          .x = u + first,
                          .input_gate = input_gate + first,
                          .recurrence_gate = recurrence_gate + first,
                          .rate = rate_.data(),
                          .out = out + first,
                          .channels = spec_.width,
                          .tokens = slice.rows,
                          .begins = slice.stored == 0};
    step.threads.for_ranges(spec_.width, kLruChannelsAtOnce, [&](std::size_t begin, std::size_t end) {
      step.kernels.rg_lru(unit, begin, end);
    });
  }
}

void RgLruBlock::apply(Step& step, const float* x, float* y) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t rows = step.rows;
  const std::size_t count = rows * spec_.width;
  float* branch = step.scratch.floats(count);  // all [rows, width]
  float* projected = step.scratch.floats(count);
  float* u = step.scratch.floats(count);
  float* gates[] = {step.scratch.floats(count), step.scratch.floats(count)};
  LinearInput input(x, rows);
  y_.apply(step, input, branch);
  x_.apply(step, input, projected);
  run_with_exports(step, {offsets_.conv, spec_.conv_state_size() * sizeof(float)},
                   [&] { convolve(step, projected, u); });
  const Gate* matrices[] = {&input_gate_, &recurrence_gate_};
  step.threads.for_parts(2 * spec_.heads, [&](std::size_t part) {
    const std::size_t gate = part / spec_.heads;
    const std::size_t head = part % spec_.heads;
    step.kernels.block_diagonal({.x = u,
                                 .weight = matrices[gate]->weight.data(),
                                 .bias = matrices[gate]->bias.data(),
                                 .y = gates[gate],
                                 .rows = rows,
                                 .blocks = spec_.heads,
                                 .size = spec_.head_width()},
                                head, head + 1);
  });
  run_with_exports(step, {offsets_.h, spec_.width * sizeof(float)},
                   [&] { recur(step, u, gates[0], gates[1], projected); });
  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    const std::size_t first = begin * spec_.width;
    step.kernels.gate_gelu(branch + first, projected + first, (end - begin) * spec_.width);
  });
  out_.apply(step, projected, rows, y);
  step.scratch.reset(mark);
}

}  // namespace

std::unique_ptr<Part> make_part(const RgLruSpec& spec, BuildContext& context) {
  return std::make_unique<RgLruBlock>(spec, context.files, context.state);
}

}  // namespace reprise::models::cpu
