// decode_bf16 and its relatives: products of decoded rows with weights of bf16. Few rows are computed here
// (gpu/cuda/decode_skinny.cuh), more go through gpu/cuda/decode_tiles.cu.
#include "gpu/cuda/decode_skinny.cuh"
#include "gpu/cuda/decode_tiles.h"

namespace reprise::gpu::cuda {
namespace {

using product::kChunk;
using product::kRowBytes;
using product::kUnits;

/// A warp's own ring of chunks of weights, on their way from memory without a register: as many blocks as possible have
/// theirs under way, those of the next kernel among them.
template <int kBlockOutputs, class Output>
class Bf16Ring {
 public:
  static constexpr int kOutputs = kBlockOutputs;
  static constexpr int kWarpBytes = 8192;
  static constexpr int kChunkBytes = kBlockOutputs * kRowBytes;
  static constexpr int kDepth = kWarpBytes / kChunkBytes;

  __device__ Bf16Ring(std::byte* memory, const std::byte* w, int columns, int block, const Output& output)
      : memory_(memory),
        w_(reinterpret_cast<const Bf16*>(w)),
        columns_(columns),
        block_(block),
        output_(output) {}

  __device__ void begin_load(int index, int chunk, int chunks) const {
    if (chunk < chunks) {
      const std::uint32_t to = shared_address(memory_ + index % kDepth * kChunkBytes);
#pragma unroll
      for (int i = 0; i < kBlockOutputs * kUnits / 32; ++i) {
        const int item = i * 32 + static_cast<int>(threadIdx.x) % 32;
        const int unit = item % kUnits;
        const int k = chunk * kChunk + unit * 8;
        // Outputs that there are not are computed as the last one, and go nowhere.
        const int row =
            min(output_.template row_of<kBlockOutputs>(block_, item / kUnits), output_.weight_rows() - 1);
        const Bf16* from = w_ + static_cast<std::size_t>(row) * columns_;
        copy_chunk(to + product::place_of(item / kUnits, unit), from + (k < columns_ ? k : 0), k < columns_);
      }
    }
    end_copy_group();
  }
  __device__ product::WeightPart part(int index, int /*chunk*/, int tile, int lane) const {
    const std::byte* chunk = memory_ + index % kDepth * kChunkBytes;
    if constexpr (kBlockOutputs >= product::kOutputs) {
      return product::read_weights(chunk, product::kOutputs * tile, lane);
    } else {  // half a tile
      product::WeightPart part;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        part.low[half] = product::read_unit(chunk, lane / 4, half, lane % 4);
        part.high[half] = make_uint4(0, 0, 0, 0);
      }
      return part;
    }
  }

 private:
  std::byte* memory_;
  const Bf16* w_;
  int columns_;
  int block_;
  const Output& output_;
};

template <class Rows>
void launch_gated(const Rows& rows, int m, const DeviceWeight& weight, const GatedRows& to,
                  StreamHandle stream) {
  product::launch_skinny<Bf16Ring<32, product::GatedOutput>>(rows, m, weight,
                                                             product::GatedOutput(to, weight), stream);
}

}  // namespace

void decode_bf16(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput kind,
                 StreamHandle stream) {
  if (m > product::kSkinnyRows && tiles_suit(weight)) return decode_in_tiles(x, m, weight, y, kind, stream);
  product::with_output(y, weight, kind, [&](const auto& output) {
    product::launch_skinny_for<Bf16Ring>(product::PlainRows{x}, m, weight, output, stream);
  });
}

void decode_bf16_normed(const NormedRows& rows, int m, const DeviceWeight& weight, void* y, GemmOutput kind,
                        StreamHandle stream) {
  product::check_few(m);
  product::with_output(y, weight, kind, [&](const auto& output) {
    product::launch_skinny_for<Bf16Ring>(product::RowsToNorm(rows), m, weight, output, stream);
  });
}

void decode_bf16_gated(const Bf16* x, int m, const DeviceWeight& weight, const GatedRows& to,
                       StreamHandle stream) {
  if (m > product::kSkinnyRows && tiles_suit(weight)) {
    return decode_in_tiles_gated(x, m, weight, to, stream);
  }
  launch_gated(product::PlainRows{x}, m, weight, to, stream);
}

void decode_bf16_normed_gated(const NormedRows& rows, int m, const DeviceWeight& weight, const GatedRows& to,
                              StreamHandle stream) {
  product::check_few(m);
  launch_gated(product::RowsToNorm(rows), m, weight, to, stream);
}

}  // namespace reprise::gpu::cuda
