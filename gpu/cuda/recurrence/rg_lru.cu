// RG-LRU. Decode has three launches: gates of all tokens in parallel; h, one thread per channel; the output
// gate. Prefill is a rule of scan_tiles.cuh.

#include "gpu/cuda/recurrence/rg_lru.h"

#include "base/check.h"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/recurrence/scan_tiles.cuh"
#include "gpu/cuda/rows/activations.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kLruThreads = 128;
constexpr int kLruScanThreads = 32;  // small blocks, to spread few channels over many SMs
constexpr int kTokensAhead = 8;      // loaded together

/// A token's update: h = decay h + input.
struct LruToken {
  float decay;
  float input;
};
__device__ __forceinline__ LruToken token_update(float x, float input_gate, float recurrence_gate, float rate,
                                                 bool begins) {
  const float input = x * sigmoid_of(input_gate);
  const float log_decay = rate * sigmoid_of(recurrence_gate);
  const float left = 1.0F - expf(log_decay + log_decay);
  const float root = sqrtf(left < 0.0F ? 0.0F : left);  // a NaN stays NaN
  return {.decay = begins ? 0.0F : expf(log_decay), .input = begins ? input : input * root};
}

/// Grid: channels, rows. Overwrites the recurrence gate with the decay and the input gate with the input.
template <class Row>
__global__ void __launch_bounds__(kLruThreads)
    update_tokens(RgLruShape shape, Batch batch, RgLruPass<Row> pass) {
  const int channel = static_cast<int>(blockIdx.x * kLruThreads + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y);
  if (channel >= shape.channels || batch.row_slice[row] == kNoSlice) return;
  const BatchSlice& slice = batch.slices[batch.row_slice[row]];
  const bool begins = slice.stored == 0 && row == slice.first_row;
  const auto at = static_cast<std::size_t>(row) * shape.channels + channel;
  const LruToken token =
      token_update(pass.x[at], pass.input_gate[at], pass.recurrence_gate[at], pass.rate[channel], begins);
  pass.input_gate[at] = token.input;
  pass.recurrence_gate[at] = token.decay;
}

/// Grid: channels, slices. Overwrites the inputs with h.
template <class Row>
__global__ void __launch_bounds__(kLruScanThreads)
    sum_tokens(RgLruShape shape, Batch batch, RgLruPass<Row> pass) {
  const int channel = static_cast<int>(blockIdx.x * kLruScanThreads + threadIdx.x);
  if (channel >= shape.channels) return;
  const BatchSlice slice = batch.slices[blockIdx.y];
  float* state = reinterpret_cast<float*>(slice.slot + shape.state_offset) + channel;
  const auto first = static_cast<std::size_t>(slice.first_row) * shape.channels + channel;
  const float* decays = pass.recurrence_gate + first;
  float* inputs = pass.input_gate + first;
  const auto stride = static_cast<std::size_t>(shape.channels);
  float h = *state;
  for (int begin = 0; begin < slice.rows; begin += kTokensAhead) {
    float decay[kTokensAhead];
    float input[kTokensAhead];
#pragma unroll
    for (int i = 0; i < kTokensAhead; ++i) {
      const bool present = begin + i < slice.rows;
      decay[i] = present ? decays[(begin + i) * stride] : 0.0F;
      input[i] = present ? inputs[(begin + i) * stride] : 0.0F;
    }
#pragma unroll
    for (int i = 0; i < kTokensAhead; ++i) {
      if (begin + i >= slice.rows) break;
      h = fmaf(decay[i], h, input[i]);
      inputs[(begin + i) * stride] = h;
    }
  }
  *state = h;
}

/// Grid: channels, rows.
template <class Row>
__global__ void __launch_bounds__(kLruThreads)
    gate_tokens(RgLruShape shape, Batch batch, RgLruPass<Row> pass) {
  const int channel = static_cast<int>(blockIdx.x * kLruThreads + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y);
  if (channel >= shape.channels || batch.row_slice[row] == kNoSlice) return;
  const auto at = static_cast<std::size_t>(row) * shape.channels + channel;
  const float branch = load_row(pass.branch[static_cast<std::size_t>(row) * pass.branch_stride + channel]);
  store_row(pass.out[at], pass.input_gate[at] * gelu_of(branch));
}

/// Rule for scan_tiles(); the total is the product of the decays. sum() stores a token's update in place of
/// its gates.
template <class Row>
struct LruTiles {
  static constexpr int kElements = 1;
  static constexpr float kNoRows = 1.0F;
  int columns;  // channels
  int size;     // 1
  std::size_t elements;
  std::size_t state_offset;
  RgLruPass<Row> pass;

  __device__ float* state(std::byte* slot) const { return reinterpret_cast<float*>(slot + state_offset); }
  __device__ std::size_t index_of(int column, int /*n*/) const { return static_cast<std::size_t>(column); }
  __device__ int column_of(std::size_t element) const { return static_cast<int>(element); }
  __device__ float rate(std::size_t /*element*/) const { return 0.0F; }  // unused: the total is the decay
  __device__ float decay(float /*rate*/, float total) const { return total; }

  struct Shared {};
  __device__ void share(Shared& /*to*/, int /*first_row*/, int /*rows*/) const {}

  struct Column {
    float rate;
  };
  __device__ Column column(int column) const { return {.rate = pass.rate[column]}; }

  struct Input {
    float x;
    float input_gate;
    float recurrence_gate;
  };
  __device__ Input read(const TileToken& token) const {
    return {.x = *token.in(pass.x, columns),
            .input_gate = *token.in(pass.input_gate, columns),
            .recurrence_gate = *token.in(pass.recurrence_gate, columns)};
  }
  __device__ void sum(const Column& own, const Shared& /*shared*/, const Input& in, const TileToken& token,
                      float (&h)[1], float& total) const {
    const LruToken update = token_update(in.x, in.input_gate, in.recurrence_gate, own.rate, token.begins);
    *token.in(pass.input_gate, columns) = update.input;
    *token.in(pass.recurrence_gate, columns) = update.decay;
    h[0] = fmaf(update.decay, h[0], update.input);
    total *= update.decay;
  }

  struct Again {
    LruToken update;
    float branch;
  };
  __device__ Again read_again(const TileToken& token) const {
    return {.update = {.decay = *token.in(pass.recurrence_gate, columns),
                       .input = *token.in(pass.input_gate, columns)},
            .branch = load_row(*token.in(pass.branch, pass.branch_stride))};
  }
  __device__ void emit(const Column& /*own*/, const Shared& /*shared*/, const Again& in,
                       const TileToken& token, float (&h)[1]) const {
    h[0] = fmaf(in.update.decay, h[0], in.update.input);
    store_row(*token.in(pass.out, columns), h[0] * gelu_of(in.branch));
  }
};

template <class Row>
void recur(const RgLruShape& shape, const Batch& batch, const RgLruPass<Row>& pass, StreamHandle stream) {
  REPRISE_CHECK(shape.channels > 0 && shape.channels <= pass.branch_stride,
                "the recurrence has no channels, or more than the row stride");
  if (batch.tile_count > 0) {
    const LruTiles<Row> rule{.columns = shape.channels,
                             .size = 1,
                             .elements = static_cast<std::size_t>(shape.channels),
                             .state_offset = shape.state_offset,
                             .pass = pass};
    return scan_tiles(rule, batch, pass.exports, pass.workspace, stream, "rg_lru of tiles");
  }
  const auto blocks = static_cast<unsigned>((shape.channels + kLruThreads - 1) / kLruThreads);
  const auto scans = static_cast<unsigned>((shape.channels + kLruScanThreads - 1) / kLruScanThreads);
  const auto rows = static_cast<unsigned>(batch.rows);
  update_tokens<<<dim3(blocks, rows), kLruThreads, 0, stream>>>(shape, batch, pass);
  check_launch("rg_lru: its tokens");
  sum_tokens<<<dim3(scans, static_cast<unsigned>(batch.slice_count)), kLruScanThreads, 0, stream>>>(
      shape, batch, pass);
  check_launch("rg_lru");
  gate_tokens<<<dim3(blocks, rows), kLruThreads, 0, stream>>>(shape, batch, pass);
  check_launch("rg_lru: its gate");
}

}  // namespace

std::size_t rg_lru_workspace(const RgLruShape& shape, int tiles) {
  return tile_states_bytes(static_cast<std::size_t>(shape.channels), shape.channels, tiles);
}

void rg_lru(const RgLruShape& shape, const Batch& batch, const RgLruPass<Bf16>& pass, StreamHandle stream) {
  recur(shape, batch, pass, stream);
}
void rg_lru(const RgLruShape& shape, const Batch& batch, const RgLruPass<float>& pass, StreamHandle stream) {
  recur(shape, batch, pass, stream);
}

}  // namespace reprise::gpu::cuda
