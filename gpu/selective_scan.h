#pragma once
// The selective scan of Mamba-1, as a kernel sees it. Exactness and threading: gpu/kernels.h.

#include <cstddef>

namespace reprise::gpu {

/// A state of state_size numbers for each channel, over consecutive tokens of one sequence:
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

}  // namespace reprise::gpu
