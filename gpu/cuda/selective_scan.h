#pragma once
// The selective scan of Mamba-1 over the rows of a batch, and what stands between the products before it. The
// specification is gpu/kernels.h.
//
// Prefill takes the tiles of a batch all at once (gpu/cuda/scan_tiles.cuh), decode one token at a time
// (gpu/cuda/scan.cuh); their bits differ. States of more than 32 numbers go token after token in both.
//
// Exactness: as gpu/cuda/batch.h. Threading: launches into `stream`; no other state.

#include <cstddef>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

struct SelectiveScanShape {
  int channels = 0;
  int state_size = 0;
  int step_rank = 0;
  std::size_t state_offset = 0;  // in a slot: f32 [groups of 8 channels, state_size, 8]
};

/// Norms over dt, B and C of each row, each by itself: y = x / sqrt(mean(x^2) + eps) * (offset + weight).
struct ScanNormWeights {
  const float* dt = nullptr;  // [step_rank]; null: there are none
  const float* b = nullptr;   // [state_size]
  const float* c = nullptr;   // [state_size]
  float offset = 0;
  float eps = 0;
};

/// x f32 [rows] rows of `stride`: dt [step_rank], B and C [state_size]. The norms of B and C in place; dt goes to
/// low [rows, low_stride], rounded where that is bf16, zeros behind its step_rank elements.
void separate_scan_inputs(const SelectiveScanShape& shape, const ScanNormWeights& norms, int rows, float* x,
                          int stride, Bf16* low, int low_stride, StreamHandle stream);
void separate_scan_inputs(const SelectiveScanShape& shape, const ScanNormWeights& norms, int rows, float* x,
                          int stride, float* low, int low_stride, StreamHandle stream);

/// Row: the element of rows, Bf16 or float.
template <class Row>
struct SelectiveScanPass {
  const float* a;     // as the state: A log2(e), not above 0
  const float* skip;  // D [channels]
  const Row* x;       // [rows, channels]: after the convolution
  float* step;  // [rows] rows of `step_stride`: dt as it was projected, with its bias; a prefill uses it up
  int step_stride;
  const float* b;  // [rows] rows of `bc_stride`: B [state_size], then C [state_size]
  int bc_stride;
  const Row* gate;  // [rows] rows of `gate_stride`
  int gate_stride;
  Row* out;                        // [rows, channels]
  std::byte* workspace = nullptr;  // selective_scan_workspace() bytes, aligned to 4
  SlotExports exports{};           // of a prefill
};

bool selective_scan_supports(const SelectiveScanShape& shape);
/// Enough for a batch of so many tiles: about channels * (state_size + 1) floats for each. None for decode.
std::size_t selective_scan_workspace(const SelectiveScanShape& shape, int tiles);

/// A batch with tiles is a prefill. The slots hold the state after the slices' rows then.
void selective_scan(const SelectiveScanShape& shape, const Batch& batch, const SelectiveScanPass<Bf16>& pass,
                    StreamHandle stream);
void selective_scan(const SelectiveScanShape& shape, const Batch& batch, const SelectiveScanPass<float>& pass,
                    StreamHandle stream);

}  // namespace reprise::gpu::cuda
