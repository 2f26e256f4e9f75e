#pragma once
// The part of Kimi Delta Attention in chunks that carries the state, chunk after chunk of 64 tokens of a slice. With S the
// f32 state of a head and X, R, V', O of 64 rows, on some columns of the values:
//   X = (k e^G) S;  R = beta (V - X);  V' = T R
//   O = (q e^G) S + P V';  S = diag(e^{G_63}) S + (k e^{G_63 - G})^T V'
// All operands are split in two bf16 each for the tensor cores, which sum in f32; of four products of their parts the one
// of both low parts is left out. Columns do not know of each other: their bits do not depend on how many a block has.

#include "gpu/cuda/channel_delta_strip.cuh"

namespace reprise::gpu::cuda {
namespace {

/// Grid: head_dim / kColumns strips of a head times heads, slices.
template <int kDim, int kColumns>
__global__ void __launch_bounds__(kKdaScanThreads, 2)
    scan_kda_chunks(KdaSpace space, std::size_t state_offset, Batch batch, ChannelDeltaPass pass) {
  using Strip = KdaStrip<kDim, kColumns>;
  using Memory = typename Strip::Memory;
  extern __shared__ __align__(16) std::byte kda_memory[];
  const int first_tile = find_first_tile<kKdaScanThreads>(batch, static_cast<int>(blockIdx.y));
  if (first_tile < 0) return;
  const Strip strip(space, pass, batch.slices[blockIdx.y], kda_memory);
  const int chunks = (strip.slice.rows + 63) / 64;

  typename Strip::Keys keys[Strip::kAhead];
  typename Strip::Inputs in;
  typename Strip::State s = {};
  const std::byte* chunk = strip.chunk_at(first_tile);
  strip.read_first_keys(keys, chunk);
  strip.read_inputs(in, 0);
  strip.read_state(s, state_offset);
  strip.publish_state(s);
  for (int done = 0; done < chunks; ++done) {
    std::byte* const wanted = export_behind(pass.exports, first_tile + done);
    __syncthreads();  // S is there
    typename Strip::Part x = {};
    typename Strip::Part o = {};
    strip.recall(x, o, keys, chunk);
    SplitFragment blocks[4];
    strip.read_triangle(blocks, chunk, 0);
    strip.correct(x, in);
    strip.publish_part(Memory::kR, x);
    __syncthreads();  // R is there, and nobody reads S any more
    typename Strip::Part change = {};
    strip.multiply_rows(change, blocks, Memory::kR);
    strip.read_triangle(blocks, chunk, 1);
    strip.publish_part(Memory::kNew, change);
    __syncthreads();  // V' is there
    strip.multiply_rows(o, blocks, Memory::kNew);
    strip.write_outputs(o, done);
    SplitFragment fades[4];
    float whole[2] = {};
    strip.read_fades(fades, whole, chunk);
    strip.renew(s, fades, whole);
    if (wanted != nullptr) strip.store_state(s, wanted, state_offset);
    if (done + 1 < chunks) {
      chunk = strip.chunk_at(first_tile + done + 1);
      strip.read_first_keys(keys, chunk);
      strip.read_inputs(in, done + 1);
    }
    strip.publish_state(s);
  }
  strip.store_state(s, strip.slice.slot, state_offset);
}

}  // namespace
}  // namespace reprise::gpu::cuda
