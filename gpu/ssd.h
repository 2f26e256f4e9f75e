#pragma once
// The recurrence of Mamba-2 (state space duality), as a kernel sees it. Exactness and threading: gpu/kernels.h.

#include <cstddef>

namespace reprise::gpu {

/// One head over consecutive tokens of one sequence:
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

}  // namespace reprise::gpu
