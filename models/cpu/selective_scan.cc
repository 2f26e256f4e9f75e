#include "models/cpu/selective_scan.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "models/checkpoint.h"
#include "models/conv_taps.h"
#include "models/weight_tensors.h"

namespace reprise::models {
namespace {

constexpr std::size_t kChannelsOfARange = 64;  // a multiple of kLanes

/// -exp(A_log) in groups of channels.
std::vector<float> load_decays(const Checkpoint& checkpoint, const SelectiveScanSpec& spec) {
  const std::vector<float> logs = load_vector(checkpoint, spec.name + ".A_log");  // [inner, state_size]
  std::vector<float> out(spec.state_numbers());
  for (std::size_t c = 0; c < spec.inner; ++c) {
    const std::size_t group = c / gpu::kLanes * spec.state_size;
    for (std::size_t n = 0; n < spec.state_size; ++n) {
      const double log = logs[c * spec.state_size + n];
      out[(group + n) * gpu::kLanes + c % gpu::kLanes] = static_cast<float>(-std::exp(log));
    }
  }
  return out;
}

}  // namespace

SelectiveScan::SelectiveScan(const SelectiveScanSpec& spec, const Checkpoint& checkpoint, StateLayout& state)
    : spec_(spec),
      in_(checkpoint, spec.name + ".in_proj"),
      x_(checkpoint, spec.name + ".x_proj"),
      dt_(checkpoint, spec.name + ".dt_proj"),
      out_(checkpoint, spec.name + ".out_proj"),
      conv_(load_conv_taps(checkpoint, spec.name + ".conv1d.weight")),
      conv_bias_(spec.conv_bias ? load_vector(checkpoint, spec.name + ".conv1d.bias") : std::vector<float>{}),
      a_(load_decays(checkpoint, spec)),
      skip_(load_vector(checkpoint, spec.name + ".D")),
      norms_(load_norms(checkpoint)),
      places_(declare_state(spec, state)) {}

std::optional<SelectiveScan::Norms> SelectiveScan::load_norms(const Checkpoint& checkpoint) const {
  switch (spec_.norms) {
    case ScanNorms::kNone:
      return std::nullopt;
    case ScanNorms::kWeightless:
      return Norms{.dt = std::vector<float>(spec_.step_rank, 1.0F),
                   .b = std::vector<float>(spec_.state_size, 1.0F),
                   .c = std::vector<float>(spec_.state_size, 1.0F)};
    case ScanNorms::kWeighted:
      break;
  }
  return Norms{.dt = load_vector(checkpoint, spec_.name + ".dt_layernorm.weight"),
               .b = load_vector(checkpoint, spec_.name + ".b_layernorm.weight"),
               .c = load_vector(checkpoint, spec_.name + ".c_layernorm.weight")};
}

template <class Work>
void SelectiveScan::for_channels(Step& step, const Work& work) const {
  const std::size_t ranges = (spec_.inner + kChannelsOfARange - 1) / kChannelsOfARange;
  step.threads.for_parts(step.slices.size() * ranges, [&](std::size_t part) {
    const std::size_t begin = part % ranges * kChannelsOfARange;
    work(step.slices[part / ranges], begin, std::min(begin + kChannelsOfARange, spec_.inner));
  });
}

/// projected [rows, 2 inner], of which the first half goes in -> x [rows, inner]
void SelectiveScan::convolve(Step& step, const float* projected, float* x) const {
  for_channels(step, [&](const StepSlice& slice, std::size_t begin, std::size_t end) {
    step.kernels.causal_conv({.state = reinterpret_cast<float*>(slice.sequence->slot_data() + places_.conv),
                              .weight = conv_.data(),
                              .x = projected + slice.first_row * 2 * spec_.inner,
                              .y = x + slice.first_row * spec_.inner,
                              .channels = spec_.inner,
                              .taps = spec_.conv_kernel,
                              .tokens = slice.rows,
                              .x_stride = 2 * spec_.inner,
                              .bias = spec_.conv_bias ? conv_bias_.data() : nullptr},
                             begin, end);
  });
}

/// dt_b_c [rows, step_rank + 2 state_size]: norms of the three; dt [rows, step_rank]: the first by itself
void SelectiveScan::separate(Step& step, float* dt_b_c, float* dt) const {
  const std::size_t stride = spec_.x_proj_rows();
  const std::size_t rank = spec_.step_rank;
  const std::size_t size = spec_.state_size;
  if (norms_) {
    const auto [offset, eps] = spec_.norm;
    const auto norm = [&](const std::vector<float>& weight, float* first) {
      step.kernels.rms_norm(first, weight.data(), offset, eps, first, step.rows, weight.size(), stride);
    };
    norm(norms_->dt, dt_b_c);
    norm(norms_->b, dt_b_c + rank);
    norm(norms_->c, dt_b_c + rank + size);
  }
  for (std::size_t row = 0; row < step.rows; ++row) {
    std::memcpy(dt + row * rank, dt_b_c + row * stride, rank * sizeof(float));
  }
}

/// x, dt [rows, inner], dt_b_c [rows, step_rank + 2 state_size], projected [rows, 2 inner], of which the second half is
/// the gate -> y [rows, inner]
void SelectiveScan::scan(Step& step, const float* x, const float* dt, const float* dt_b_c,
                         const float* projected, float* y) const {
  const std::size_t inner = spec_.inner;
  for_channels(step, [&](const StepSlice& slice, std::size_t begin, std::size_t end) {
    const std::size_t first = slice.first_row * inner;
    const float* b = dt_b_c + slice.first_row * spec_.x_proj_rows() + spec_.step_rank;
    step.kernels.selective_scan(
        {.state = reinterpret_cast<float*>(slice.sequence->slot_data() + places_.state),
         .a = a_.data(),
         .skip = skip_.data(),
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
  convolve(step, projected, convolved);
  x_.apply(step, convolved, rows, dt_b_c);
  separate(step, dt_b_c, low_rank);
  dt_.apply(step, low_rank, rows, dt);
  scan(step, convolved, dt, dt_b_c, projected, mixed);
  out_.apply(step, mixed, rows, y);
  step.scratch.reset(mark);
}

}  // namespace reprise::models
