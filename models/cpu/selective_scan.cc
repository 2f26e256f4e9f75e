#include <algorithm>
#include <cstring>

#include "models/cpu/linear.h"
#include "models/cpu/part.h"
#include "models/cpu/slot_exports.h"
#include "models/model_files.h"
#include "models/parts/selective_scan.h"

namespace reprise::models::cpu {
namespace {

constexpr std::size_t kChannelsOfARange = 64;  // a multiple of kLanes

class SelectiveScan : public Part {
 public:
  SelectiveScan(const SelectiveScanSpec& spec, const ModelFiles& files, StateLayout& state);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    for (const Linear* linear : {&in_, &x_, &dt_, &out_}) linear->prepare(how);
  }
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"selective scan"};
    return kSite;
  }

 private:
  /// Calls work(slice, begin, end) for ranges of the channels of each slice.
  template <class Work>
  void for_channels(Step& step, const Work& work) const;
  void convolve(Step& step, const float* projected, float* x) const;
  void separate(Step& step, float* dt_b_c, float* dt) const;
  void scan(Step& step, const float* x, const float* dt, const float* dt_b_c, const float* projected,
            float* y) const;

  const SelectiveScanSpec spec_;
  Linear in_;  // x, z
  Linear x_;   // dt, B, C
  Linear dt_;
  Linear out_;
  SelectiveScanParameters parameters_;
  SelectiveScanOffsets offsets_;
};

SelectiveScan::SelectiveScan(const SelectiveScanSpec& spec, const ModelFiles& files, StateLayout& state)
    : spec_(spec),
      in_(files, spec.name + ".in_proj"),
      x_(files, spec.name + ".x_proj"),
      dt_(files, spec.name + ".dt_proj"),
      out_(files, spec.name + ".out_proj"),
      parameters_(load_selective_scan_parameters(files, spec)),
      offsets_(declare_state(spec, state)) {}

template <class Work>
void SelectiveScan::for_channels(Step& step, const Work& work) const {
  const std::size_t ranges = (spec_.inner + kChannelsOfARange - 1) / kChannelsOfARange;
  step.threads.for_parts(step.slices.size() * ranges, [&](std::size_t part) {
    const std::size_t begin = part % ranges * kChannelsOfARange;
    work(step.slices[part / ranges], begin, std::min(begin + kChannelsOfARange, spec_.inner));
  });
}

/// Convolves the first half of projected [rows, 2 inner] -> x [rows, inner].
void SelectiveScan::convolve(Step& step, const float* projected, float* x) const {
  for_channels(step, [&](const StepSlice& slice, std::size_t begin, std::size_t end) {
    step.kernels.causal_conv({.state = reinterpret_cast<float*>(slice.sequence->slot_data() + offsets_.conv),
                              .weight = parameters_.conv.data(),
                              .x = projected + slice.first_row * 2 * spec_.inner,
                              .y = x + slice.first_row * spec_.inner,
                              .channels = spec_.inner,
                              .taps = spec_.conv_kernel,
                              .tokens = slice.rows,
                              .x_stride = 2 * spec_.inner,
                              .bias = spec_.conv_bias ? parameters_.conv_bias.data() : nullptr},
                             begin, end);
  });
}

/// Normalizes dt, B and C in dt_b_c [rows, step_rank + 2 state_size], if there are norms, and copies dt to dt
/// [rows, step_rank].
void SelectiveScan::separate(Step& step, float* dt_b_c, float* dt) const {
  const std::size_t stride = spec_.x_proj_rows();
  const std::size_t rank = spec_.step_rank;
  const std::size_t size = spec_.state_size;
  if (parameters_.has_norms()) {
    const float offset = spec_.norm.offset;
    const float eps = spec_.norm.eps;
    const auto norm = [&](const std::vector<float>& weight, float* first) {
      step.kernels.rms_norm(first, weight.data(), offset, eps, first, step.rows, weight.size(), stride);
    };
    norm(parameters_.dt_norm, dt_b_c);
    norm(parameters_.b_norm, dt_b_c + rank);
    norm(parameters_.c_norm, dt_b_c + rank + size);
  }
  for (std::size_t row = 0; row < step.rows; ++row) {
    std::memcpy(dt + row * rank, dt_b_c + row * stride, rank * sizeof(float));
  }
}

/// x, dt [rows, inner], dt_b_c [rows, step_rank + 2 state_size], projected [rows, 2 inner], whose second half
/// is the gate, -> y [rows, inner]
void SelectiveScan::scan(Step& step, const float* x, const float* dt, const float* dt_b_c,
                         const float* projected, float* y) const {
  const std::size_t inner = spec_.inner;
  for_channels(step, [&](const StepSlice& slice, std::size_t begin, std::size_t end) {
    const std::size_t first = slice.first_row * inner;
    const float* b = dt_b_c + slice.first_row * spec_.x_proj_rows() + spec_.step_rank;
    step.kernels.selective_scan(
        {.state = reinterpret_cast<float*>(slice.sequence->slot_data() + offsets_.state),
         .a = parameters_.a.data(),
         .skip = parameters_.skip.data(),
         .channels = inner,
         .state_size = spec_.state_size,
         .tokens = slice.rows,
         .x = x + first,
         .step = dt + first,
         .b = b,
         .c = b + spec_.state_size,
         .bc_stride = spec_.x_proj_rows(),
         .gate = projected + 2 * first + inner,
         .gate_stride = 2 * inner,
         .y = y + first},
        begin, end);
  });
}

void SelectiveScan::apply(Step& step, const float* x, float* y) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t rows = step.rows;
  const std::size_t inner = spec_.inner;
  float* projected = step.scratch.floats(rows * 2 * inner);
  float* convolved = step.scratch.floats(rows * inner);
  float* dt_b_c = step.scratch.floats(rows * spec_.x_proj_rows());
  float* low_rank = step.scratch.floats(rows * spec_.step_rank);
  float* dt = step.scratch.floats(rows * inner);
  float* mixed = step.scratch.floats(rows * inner);
  in_.apply(step, x, rows, projected);
  run_with_exports(step, {offsets_.conv, spec_.conv_state_size() * sizeof(float)},
                   [&] { convolve(step, projected, convolved); });
  x_.apply(step, convolved, rows, dt_b_c);
  separate(step, dt_b_c, low_rank);
  dt_.apply(step, low_rank, rows, dt);
  run_with_exports(step, {offsets_.state, spec_.state_numbers() * sizeof(float)},
                   [&] { scan(step, convolved, dt, dt_b_c, projected, mixed); });
  out_.apply(step, mixed, rows, y);
  step.scratch.reset(mark);
}

}  // namespace

std::unique_ptr<Part> make_part(const SelectiveScanSpec& spec, BuildContext& context) {
  return std::make_unique<SelectiveScan>(spec, context.files, context.state);
}

}  // namespace reprise::models::cpu
