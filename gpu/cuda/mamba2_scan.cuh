#pragma once
// The part of Mamba-2's recurrence that carries the state, chunk after chunk of 64 tokens of a slice. With G the sums of
// -decay dt from the chunk's start, S the f32 state of a head and X' = dt x of 64 rows, on some columns of the head:
//   M = lower part, with the diagonal, of (C B^T)_ij exp(G_i - G_j)
//   O = e^G (C S) + skip x + M X';  S = e^{G_63} S + B^T (e^{G_63 - G} X')
// B and C are bf16. S, X', e^{G_63 - G} X' and M are split in two bf16 each for the tensor cores, which sum in f32.
// What is masked is never put through exp: above the diagonal it may overflow.
//
// Columns do not know of each other: their bits do not depend on how many a block has.

#include "gpu/cuda/mamba2_strip.cuh"

namespace reprise::gpu::cuda {
namespace {

/// Grid: head_dim / kColumns strips of a head times heads, slices.
template <int kState, int kColumns>
__global__ void __launch_bounds__(kSsdScanThreads, 1)
    scan_ssd_chunks(SsdSpace space, Batch batch, SsdPass<Bf16> pass) {
  using Strip = SsdStrip<kState, kColumns>;
  using Memory = typename Strip::Memory;
  extern __shared__ __align__(16) std::byte ssd_memory[];
  const int first_tile = find_first_tile<kSsdScanThreads>(batch, static_cast<int>(blockIdx.y));
  if (first_tile < 0) return;
  const Strip strip(space, pass, batch.slices[blockIdx.y], ssd_memory);
  const int chunks = (strip.slice.rows + 63) / 64;
  const float skip = pass.skip[strip.head];

  strip.load_c(first_tile, 0);
  end_copy_group();
  if (!Memory::kOnePlace) strip.load_b(first_tile);
  end_copy_group();
  float2 x[Strip::kTiles][2];
  strip.read_inputs(x, 0);
  typename Strip::State s = {};
  strip.read_state(s);
  strip.publish_state(s);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const std::size_t tile = first_tile + chunk;
    const bool goes_on = chunk + 1 < chunks;
    const int stage_offset = chunk % 2 * Memory::kStage;
    const std::byte* stage = ssd_memory + Memory::kStages + stage_offset;
    std::byte* const wanted = export_behind(pass.exports, tile);
    wait_for_copies<Memory::kOnePlace ? 0 : 1>();
    __syncthreads();  // C, the stage and S are there
    float o[Strip::kTiles][4] = {};
    strip.recall(o);
    strip.take_inputs(o, x, stage, skip);
    wait_for_copies<0>();
    __syncthreads();  // B and X' are there, and nobody reads C and S any more
    if (Memory::kOnePlace) {
      strip.load_b(tile);
    } else if (goes_on) {
      strip.load_c(tile + 1, Memory::kStage - stage_offset);
    }
    end_copy_group();
    if (goes_on) strip.read_inputs(x, chunk + 1);
    strip.multiply_inputs(o, stage);
    strip.write_outputs(o, chunk);
    if (Memory::kOnePlace) {
      wait_for_copies<0>();
      __syncthreads();  // B is there
    }
    strip.renew(s, expf(reinterpret_cast<const float*>(stage + Memory::kSums)[63]));
    if (wanted != nullptr) strip.store_state(s, wanted);
    __syncthreads();  // nobody reads B and X' any more
    if (goes_on) {
      if (Memory::kOnePlace) {
        strip.load_c(tile + 1, Memory::kStage - stage_offset);
      } else {
        strip.load_b(tile + 1);
      }
    }
    end_copy_group();
    strip.publish_state(s);
  }
  strip.store_state(s, strip.slice.slot);
}

}  // namespace
}  // namespace reprise::gpu::cuda
