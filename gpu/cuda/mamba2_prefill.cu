// The recurrence of Mamba-2 over prompts: what every chunk has by itself, then the state chunk after chunk.
#include "gpu/cuda/mamba2_prefill.h"

#include <utility>

#include "base/check.h"
#include "gpu/cuda/error.h"
#include "gpu/cuda/mamba2_scan.cuh"
#include "gpu/cuda/shared_memory.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kPrepareThreads = 128;
constexpr int kPrepareWarps = kPrepareThreads / 32;
constexpr int kFewStrips = 66;  // blocks of the scan: half of a large GPU's multiprocessors
constexpr std::size_t kSpaceAlignment = 256;

/// Rounds B and C of a group and takes their products, by a block with 2 * 64 padded rows of shared memory.
template <int kState>
__device__ void prepare_group(const SsdSpace& space, const BatchSlice& slice, const BatchTile& tile,
                              std::size_t tile_index, int group, const float* mixed, std::byte* memory) {
  constexpr int kRow = kPaddedKeyRow<kState>;
  constexpr int kPieces = kState / 4;
  const int thread = static_cast<int>(threadIdx.x);
  const int first_b = space.shape.heads * space.shape.head_dim + group * kState;
  const int b_to_c = space.shape.groups * kState;
  const std::size_t chunk = tile_index * space.shape.groups + group;
  std::byte* const b_memory = memory;
  std::byte* const c_memory = memory + 64 * kRow;
  for (int i = thread; i < 64 * kPieces; i += kPrepareThreads) {
    const int row = i / kPieces;
    const int element = i % kPieces * 4;
    uint2 b = {0U, 0U};
    uint2 c = {0U, 0U};
    if (tile.first + row < slice.rows) {
      const float* from = mixed +
                          static_cast<std::size_t>(slice.first_row + tile.first + row) * space.channels +
                          first_b + element;
      const float4 four_b = *reinterpret_cast<const float4*>(from);
      const float4 four_c = *reinterpret_cast<const float4*>(from + b_to_c);
      b = {narrow(four_b.x, four_b.y), narrow(four_b.z, four_b.w)};
      c = {narrow(four_c.x, four_c.y), narrow(four_c.z, four_c.w)};
    }
    const std::size_t at = (chunk * 64 + row) * kState + element;
    *reinterpret_cast<uint2*>(space.b + at) = b;
    *reinterpret_cast<uint2*>(space.c + at) = c;
    *reinterpret_cast<uint2*>(b_memory + row * kRow + element * 2) = b;
    *reinterpret_cast<uint2*>(c_memory + row * kRow + element * 2) = c;
  }
  __syncthreads();
  const int warp = thread / 32;
  const int lane = thread % 32;
  float dot[4][2][4];
  multiply_lower<kState>(dot, shared_address(c_memory), shared_address(b_memory), warp, lane);
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    if (c > warp) continue;
    std::byte* to =
        space.products + chunk * kChunkProductBytes + block_index(warp, c) * kProductBlockBytes + lane * 16;
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const float(&four)[4] = dot[c][side];
      *reinterpret_cast<float4*>(to + side * kProductBlockBytes / 2) = {four[0], four[1], four[2], four[3]};
    }
  }
}

/// Steps and sums of a head, by a warp. A lane has two tokens.
__device__ inline void prepare_steps(const SsdSpace& space, const BatchSlice& slice, const BatchTile& tile,
                                     std::size_t tile_index, int head, const SsdPass<Bf16>& pass) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float dt[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int t = tile.first + 2 * lane + i;
    dt[i] =
        t < slice.rows
            ? ssd_dt(
                  pass,
                  widen(pass.step[static_cast<std::size_t>(slice.first_row + t) * pass.step_stride + head]),
                  pass.dt_bias[head])
            : 0.0F;
  }
  const float rate = -pass.decay[head];
  float sum = rate * dt[0] + rate * dt[1];
  for (int distance = 1; distance < 32; distance *= 2) {
    const float before = __shfl_up_sync(0xffffffffU, sum, distance);
    if (lane >= distance) sum += before;
  }
  const float before = __shfl_up_sync(0xffffffffU, sum, 1);
  const std::size_t at = (tile_index * space.shape.heads + head) * 64 + 2 * lane;
  *reinterpret_cast<float2*>(space.dt + at) = {dt[0], dt[1]};
  *reinterpret_cast<float2*>(space.sums + at) = {(lane == 0 ? 0.0F : before) + rate * dt[0], sum};
}

/// Grid: groups, then heads by the kPrepareWarps; tiles.
template <int kState>
__global__ void __launch_bounds__(kPrepareThreads)
    prepare_ssd_chunks(SsdSpace space, Batch batch, SsdPass<Bf16> pass) {
  extern __shared__ __align__(16) std::byte group_memory[];
  const std::size_t tile_index = blockIdx.y;
  const BatchTile tile = batch.tiles[tile_index];
  const BatchSlice slice = batch.slices[tile.slice];
  const int unit = static_cast<int>(blockIdx.x);
  if (unit < space.shape.groups) {
    prepare_group<kState>(space, slice, tile, tile_index, unit, pass.mixed, group_memory);
    return;
  }
  const int head = (unit - space.shape.groups) * kPrepareWarps + static_cast<int>(threadIdx.x) / 32;
  if (head < space.shape.heads) prepare_steps(space, slice, tile, tile_index, head, pass);
}

std::size_t round_up(std::size_t bytes) {
  return (bytes + kSpaceAlignment - 1) / kSpaceAlignment * kSpaceAlignment;
}

/// How the workspace is divided.
struct SpaceBytes {
  std::size_t keys;  // B; C has as many
  std::size_t products;
  std::size_t steps;  // dt; sums has as many

  SpaceBytes(const SsdShape& shape, int tiles) {
    const std::size_t groups = static_cast<std::size_t>(tiles) * static_cast<std::size_t>(shape.groups);
    const std::size_t heads = static_cast<std::size_t>(tiles) * static_cast<std::size_t>(shape.heads);
    keys = round_up(groups * kGrid * static_cast<std::size_t>(shape.state_size) * sizeof(Bf16));
    products = round_up(groups * kChunkProductBytes);
    steps = round_up(heads * kGrid * sizeof(float));
  }
};

SsdSpace divide_space(const SsdShape& shape, std::byte* workspace, int tiles) {
  const SpaceBytes bytes(shape, tiles);
  const auto take = [&](std::size_t count) { return std::exchange(workspace, workspace + count); };
  SsdSpace space{};
  space.shape = shape;
  space.channels = shape.channels();
  space.heads_of_group = shape.heads / shape.groups;
  space.b = reinterpret_cast<__nv_bfloat16*>(take(bytes.keys));
  space.c = reinterpret_cast<__nv_bfloat16*>(take(bytes.keys));
  space.products = take(bytes.products);
  space.dt = reinterpret_cast<float*>(take(bytes.steps));
  space.sums = reinterpret_cast<float*>(take(bytes.steps));
  return space;
}

template <int kState, int kColumns>
void launch_strips(const SsdSpace& space, const Batch& batch, const SsdPass<Bf16>& pass,
                   StreamHandle stream) {
  constexpr int kBytes = SsdMemory<kState, kColumns>::kBytes;
  const auto kernel = scan_ssd_chunks<kState, kColumns>;
  static_assert(kBytes <= kLeastShared);
  allow_shared(kernel, kBytes);
  const dim3 grid(space.shape.head_dim / kColumns * space.shape.heads, batch.slice_count);
  kernel<<<grid, kSsdScanThreads, kBytes, stream>>>(space, batch, pass);
  check_launch("scan_ssd_chunks");
}

template <int kState>
void launch_ssd_chunks(const SsdSpace& space, const Batch& batch, const SsdPass<Bf16>& pass,
                       StreamHandle stream) {
  constexpr int kBytes = 2 * 64 * kPaddedKeyRow<kState>;
  const auto prepare = prepare_ssd_chunks<kState>;
  static_assert(kBytes <= kLeastShared);
  allow_shared(prepare, kBytes);
  const int blocks = space.shape.groups + (space.shape.heads + kPrepareWarps - 1) / kPrepareWarps;
  prepare<<<dim3(blocks, batch.tile_count), kPrepareThreads, kBytes, stream>>>(space, batch, pass);
  check_launch("prepare_ssd_chunks");
  if constexpr (kState <= 128) {
    // Narrow strips have the same bits, and more blocks.
    const int wide_blocks = space.shape.head_dim / 32 * space.shape.heads * batch.slice_count;
    if (space.shape.head_dim % 32 == 0 && wide_blocks > kFewStrips) {
      launch_strips<kState, 32>(space, batch, pass, stream);
      return;
    }
  }
  launch_strips<kState, 16>(space, batch, pass, stream);
}

}  // namespace

bool ssd_suits_chunks(const SsdShape& shape) {
  const int size = shape.state_size;
  return (size == 16 || size == 32 || size == 64 || size == 128 || size == 256) && shape.head_dim > 0 &&
         shape.head_dim % 16 == 0 && shape.head_dim <= 128 && shape.state_offset % 16 == 0;
}

std::size_t ssd_chunks_workspace(const SsdShape& shape, int tiles) {
  const SpaceBytes bytes(shape, tiles);
  return 2 * bytes.keys + bytes.products + 2 * bytes.steps;
}

void ssd_in_chunks(const SsdShape& shape, const Batch& batch, const SsdPass<Bf16>& pass,
                   StreamHandle stream) {
  REPRISE_CHECK(ssd_suits_chunks(shape), "the chunked recurrence has no kernel for this shape");
  const SsdSpace space = divide_space(shape, pass.workspace, batch.tile_count);
  switch (shape.state_size) {
    case 16:
      return launch_ssd_chunks<16>(space, batch, pass, stream);
    case 32:
      return launch_ssd_chunks<32>(space, batch, pass, stream);
    case 64:
      return launch_ssd_chunks<64>(space, batch, pass, stream);
    case 128:
      return launch_ssd_chunks<128>(space, batch, pass, stream);
    default:
      return launch_ssd_chunks<256>(space, batch, pass, stream);
  }
}

}  // namespace reprise::gpu::cuda
