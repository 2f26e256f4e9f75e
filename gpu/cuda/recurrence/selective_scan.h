#pragma once
// The Mamba-1 selective scan over the rows of a batch, and the steps between the GEMMs before it.
// gpu/kernels.h is the specification.
//
// Prefill scans the tiles of a batch in parallel (scan_tiles.cuh), decode one token at a time (scan.cuh);
// their bits differ. States of more than 32 elements per channel use the sequential scan in both.

#include <cstddef>

#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {

struct SelectiveScanShape {
  int channels = 0;
  int state_size = 0;
  int step_rank = 0;
  std::size_t state_offset = 0;  // bytes in a slot: f32 [groups of 8 channels, state_size, 8]
};

/// Separate RMSNorms over dt, B and C of each row: y = x / sqrt(mean(x^2) + eps) * (offset + weight).
struct ScanNormWeights {
  const float* dt = nullptr;  // [step_rank]; null: no norms
  const float* b = nullptr;   // [state_size]
  const float* c = nullptr;   // [state_size]
  float offset = 0;
  float eps = 0;
};

/// Splits x, f32 [rows] rows of `stride`: dt [step_rank], B and C [state_size]. Normalizes B and C in place;
/// writes dt (rounded if bf16) to low [rows, low_stride], padded with zeros.
void separate_scan_inputs(const SelectiveScanShape& shape, const ScanNormWeights& norms, int rows, float* x,
                          int stride, Bf16* low, int low_stride, StreamHandle stream);
void separate_scan_inputs(const SelectiveScanShape& shape, const ScanNormWeights& norms, int rows, float* x,
                          int stride, float* low, int low_stride, StreamHandle stream);

template <class Row>
struct SelectiveScanPass {
  const float* a;     // A log2(e), at most 0; laid out as the state
  const float* skip;  // D [channels]
  const Row* x;       // [rows, channels]: after the convolution
  float* step;        // [rows] rows of `step_stride`: projected dt with its bias; overwritten by a prefill
  int step_stride;
  const float* b;  // [rows] rows of `bc_stride`: B [state_size], then C [state_size]
  int bc_stride;
  const Row* gate;  // [rows] rows of `gate_stride`
  int gate_stride;
  Row* out;                        // [rows, channels]
  std::byte* workspace = nullptr;  // selective_scan_workspace() bytes, aligned to 4
  SlotExports exports{};
};

bool selective_scan_supports(const SelectiveScanShape& shape);
/// Returns about channels * (state_size + 1) floats per tile, in bytes. Decode needs none.
std::size_t selective_scan_workspace(const SelectiveScanShape& shape, int tiles);

/// A batch with tiles is a prefill. Writes out and updates the state in the slots.
void selective_scan(const SelectiveScanShape& shape, const Batch& batch, const SelectiveScanPass<Bf16>& pass,
                    StreamHandle stream);
void selective_scan(const SelectiveScanShape& shape, const Batch& batch, const SelectiveScanPass<float>& pass,
                    StreamHandle stream);

}  // namespace reprise::gpu::cuda
