#pragma once
// Which input a tap of a causal convolution meets: of the slice, or of the state before it. The same for kernels and,
// in tests, for the host.
//
// Threading: pure functions.

#ifdef __CUDACC__
#define REPRISE_ANYWHERE __host__ __device__
#else
#define REPRISE_ANYWHERE
#endif

namespace reprise::gpu::cuda {

struct ConvSource {
  bool in_state;
  int at;  // a row of the state, [taps - 1] with the last input last; or of the slice
};

/// For tap `tap`, the last of which meets the token itself, at token `token` of a slice. With `token` the number of
/// the slice's rows: what place `tap` of the state holds after it.
REPRISE_ANYWHERE inline ConvSource conv_source(int token, int tap, int taps) {
  const int at = token - (taps - 1) + tap;
  return at < 0 ? ConvSource{true, at + taps - 1} : ConvSource{false, at};
}

}  // namespace reprise::gpu::cuda

#undef REPRISE_ANYWHERE
