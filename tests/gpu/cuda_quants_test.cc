// Quantized weights on a GPU: dequantization to bf16 for prefill compared with the definition, and its GEMMs
// bitwise with those on that bf16; decode GEMMs compared with the file's weights, and bitwise with each other
// for any number and order of rows.

#include <algorithm>
#include <cstring>
#include <optional>

#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/embedding.h"
#include "gpu/cuda/rows/rows.h"
#include "tests/gpu/cuda_rig.h"
#include "tests/gpu/naive_quants.h"
#include "tests/gpu/naive_scaled.h"

namespace reprise::gpu::cuda {
namespace {

using test::from_bf16;
using test::Random;

const WeightFormat* const kKept[] = {&kQ8_0Format, &kQ4_0Format,   &kQ4_KFormat,   &kQ5_KFormat,
                                     &kQ6_KFormat, &kIQ4_XSFormat, &kF8TileFormat, &kF8RowFormat};

/// A random weight of any format, with its values.
struct Stored {
  std::optional<test::QuantWeight> quant;
  std::optional<test::ScaledWeight> scaled;

  Stored(Random& random, const WeightFormat& format, std::size_t rows, std::size_t columns) {
    if (const test::NaiveQuant* naive = test::naive_quant(format)) {
      quant.emplace(random, *naive, rows, columns);
    } else {
      scaled.emplace(random, format, rows, columns);
    }
  }
  const WeightView& view() const { return quant ? quant->view : scaled->view; }
  const std::vector<float>& values() const { return quant ? quant->values : scaled->values; }
  std::vector<float> scales() const { return quant ? std::vector<float>() : scaled->scales; }
};

class CudaQuants : public test::CudaRig<testing::TestWithParam<const WeightFormat*>> {
 protected:
  std::vector<Bf16> halves(std::size_t count) { return test::random_bf16(random_, count); }

  /// A weight in the GPU's format, and dequantized to bf16 rows.
  struct Both {
    DeviceBytes packed;
    DeviceBytes rows_of_bf16;
    DeviceWeight weight;
    DeviceWeight plain;
  };
  /// Uploads in two parts, the second of which begins inside a block.
  Both on_device(const Stored& stored) {
    const WeightView& view = stored.view();
    const DeviceFormat& format = *find_upload(*view.format)->kept;
    Both out;
    out.packed = DeviceBytes(format.bytes(view.rows, view.columns));
    out.rows_of_bf16 = DeviceBytes(view.rows * view.columns * sizeof(Bf16));
    out.weight = {.format = &format,
                  .data = out.packed.data(),
                  .rows = static_cast<int>(view.rows),
                  .columns = static_cast<int>(view.columns)};
    out.plain = out.weight;
    out.plain.format = &kBf16OnDevice;
    out.plain.data = out.rows_of_bf16.data();
    fill(out.packed.data(), 0, out.packed.size(), stream_->handle());
    std::vector<std::byte> bytes(view.bytes());
    std::memcpy(bytes.data(), view.data, bytes.size());
    const DeviceBytes raw = upload(bytes);
    const DeviceBytes scales = upload(stored.scales());
    const auto first = static_cast<int>(std::min<std::size_t>(3, view.rows));
    for (const int begin : {0, first}) {
      const int end = begin == 0 ? first : out.weight.rows;
      if (begin == end) continue;
      format.pack({.format = view.format,
                   .data = raw.data() + static_cast<std::size_t>(begin) * view.row_bytes(),
                   .scales = scales.as<const float>(),
                   .rows = end - begin,
                   .columns = out.weight.columns,
                   .first = begin},
                  out.weight, begin, stream_->handle());
    }
    format.expand(out.weight, out.rows_of_bf16.as<Bf16>(), stream_->handle());
    stream_->wait();
    return out;
  }

  Random random_{11};
};

TEST_P(CudaQuants, TakeTheSizeThatTheyHaveInFiles) {
  const DeviceFormat& format = *find_upload(*GetParam())->kept;
  const WeightView view{.format = GetParam(), .rows = 1024, .columns = 2048};
  const std::size_t scales =
      GetParam()->scales.rows == 0 ? 0 : view.bytes() / 32;  // 4 bytes per 128 elements
  EXPECT_LE(format.bytes(1024, 2048), view.bytes() + scales);
  EXPECT_FALSE(format.is_rows_of_bf16);
}

TEST_P(CudaQuants, AreTheNearestBf16OrItsNeighbor) {
  const Stored stored(random_, *GetParam(), 45, 768);
  const Both both = on_device(stored);
  const std::vector<Bf16> got = download<Bf16>(both.rows_of_bf16);
  const std::vector<float>& wanted = stored.values();
  ASSERT_EQ(got.size(), wanted.size());
  const bool has_offsets = GetParam() == &kQ4_KFormat || GetParam() == &kQ5_KFormat;
  for (std::size_t i = 0; i < got.size(); ++i) {
    // Offsets have an error of their own, of the size of their last bit, shared by blocks of 32.
    float reach = std::abs(wanted[i]);
    if (has_offsets) {
      for (std::size_t k = i / 32 * 32; k < i / 32 * 32 + 32; ++k)
        reach = std::max(reach, std::abs(wanted[k]));
    }
    ASSERT_NEAR(from_bf16(got[i]), wanted[i], reach / 128) << GetParam()->name << " at " << i;
  }
}

TEST_P(CudaQuants, RowsOfATableAreThoseBf16) {
  const Stored stored(random_, *GetParam(), 50, 512);
  const Both both = on_device(stored);
  const std::vector<std::int32_t> tokens = {0, 49, 7, 7, 13};
  const DeviceBytes on_tokens = upload(tokens);
  const DeviceBytes y(tokens.size() * 512 * sizeof(float));
  const DeviceBytes same(y.size());
  embed(on_tokens.as<const std::int32_t>(), 5, both.weight, y.as<float>(), stream_->handle());
  embed(on_tokens.as<const std::int32_t>(), 5, both.plain, same.as<float>(), stream_->handle());
  EXPECT_TRUE(test::same_bits(download<float>(y), download<float>(same)));
}

struct Shape {
  int rows;
  int columns;
};

/// Few outputs and many: half and whole tiles, clusters that split k and blocks that do not.
const Shape kShapes[] = {{8, 256}, {200, 512}, {3080, 768}, {6400, 256}};

std::size_t bytes_of(GemmOutput output) {
  return output == GemmOutput::kBf16 ? sizeof(Bf16) : sizeof(float);
}

TEST_P(CudaQuants, PrefillsHaveTheBitsOfThoseWithBf16) {
  PrefillGemm gemm;
  for (const Shape& shape : kShapes) {
    const Stored stored(random_, *GetParam(), shape.rows, shape.columns);
    const Both both = on_device(stored);
    const DeviceBytes x = upload(halves(static_cast<std::size_t>(128) * shape.columns));
    for (const int m : {1, 40, 70}) {
      for (const GemmOutput output : {GemmOutput::kBf16, GemmOutput::kF32, GemmOutput::kAddF32}) {
        const DeviceBytes y(PrefillGemm::padded(m) * shape.rows * bytes_of(output));
        const DeviceBytes same(y.size());
        for (const DeviceBytes* to : {&y, &same}) {
          fill(to->data(), 0, to->size(), stream_->handle());
          gemm.multiply(x.as<const Bf16>(), m, to == &y ? both.weight : both.plain, to->data(), output,
                        stream_->handle());
        }
        ASSERT_TRUE(test::same_bits(download<std::uint16_t>(y), download<std::uint16_t>(same)))
            << GetParam()->name << " " << shape.rows << " x " << shape.columns << ", " << m
            << " rows, output " << static_cast<int>(output);
      }
    }
  }
}

TEST_P(CudaQuants, DecodedRowsMeetTheWeightsOfTheFile) {
  constexpr int kMax = 17;
  for (const Shape& shape : {Shape{8, 256}, Shape{200, 768}, Shape{72, 2048}}) {
    const Stored stored(random_, *GetParam(), shape.rows, shape.columns);
    const Both both = on_device(stored);
    const std::vector<Bf16> rows = halves(static_cast<std::size_t>(kMax) * shape.columns);
    const DeviceBytes x = upload(rows);
    for (const int m : {1, kMax}) {
      const DeviceBytes y(static_cast<std::size_t>(m) * shape.rows * sizeof(float));
      decode_gemm(x.as<const Bf16>(), m, both.weight, y.data(), GemmOutput::kF32, stream_->handle());
      const std::vector<float> got = download<float>(y);
      for (int row = 0; row < m; ++row) {
        for (int output = 0; output < shape.rows; ++output) {
          double wanted = 0;
          double reach = 0;  // bound on the magnitude of intermediate sums
          float largest = 0;
          for (int k = 0; k < shape.columns; ++k) {
            const float w = stored.values()[static_cast<std::size_t>(output) * shape.columns + k];
            const float v = from_bf16(rows[static_cast<std::size_t>(row) * shape.columns + k]);
            wanted += static_cast<double>(w) * v;
            reach += std::abs(v);
            largest = std::max(largest, std::abs(w));
          }
          // A thirtieth of the error of rounding every weight to bf16.
          ASSERT_NEAR(got[static_cast<std::size_t>(row) * shape.rows + output], wanted,
                      2e-5 * largest * reach)
              << GetParam()->name << " row " << row << ", output " << output;
        }
      }
    }
  }
}

TEST_P(CudaQuants, DecodedRowsHaveTheSameBitsHoweverManyThereAre) {
  constexpr int kMax = 70;
  for (const Shape& shape : kShapes) {
    const Stored stored(random_, *GetParam(), shape.rows, shape.columns);
    const Both both = on_device(stored);
    const DeviceBytes x = upload(halves(static_cast<std::size_t>(kMax) * shape.columns));
    for (const GemmOutput output : {GemmOutput::kBf16, GemmOutput::kF32, GemmOutput::kAddF32}) {
      const auto product = [&](int first, int m) {
        const DeviceBytes y(static_cast<std::size_t>(m) * shape.rows * bytes_of(output));
        fill(y.data(), 0, y.size(), stream_->handle());
        decode_gemm(x.as<const Bf16>() + static_cast<std::size_t>(first) * shape.columns, m, both.weight,
                    y.data(), output, stream_->handle());
        return download<std::uint16_t>(y);
      };
      const std::vector<std::uint16_t> all = product(0, kMax);
      for (const int m : {1, 3, 8, 9, 16, 17, 40, 64}) {
        for (const int first : {0, kMax - m}) {
          const std::vector<std::uint16_t> some = product(first, m);
          const std::size_t row = some.size() / static_cast<std::size_t>(m);
          ASSERT_TRUE(std::equal(some.begin(), some.end(), all.begin() + static_cast<long>(first * row)))
              << GetParam()->name << " " << shape.rows << " x " << shape.columns << ", " << m << " rows from "
              << first << " on, output " << static_cast<int>(output);
        }
      }
    }
  }
}

TEST_P(CudaQuants, FusedNormAndGateMatchSeparateKernels) {
  constexpr int kColumns = 512;
  constexpr int kOutputs = 2 * 208;
  constexpr int kMax = 70;
  const Stored stored(random_, *GetParam(), kOutputs, kColumns);
  const Both both = on_device(stored);
  const FusedProducts& fused = *both.weight.format->fused;
  const DeviceBytes raw = upload(random_.floats(static_cast<std::size_t>(8) * kColumns));
  const DeviceBytes norm = upload(random_.floats(kColumns));
  const DeviceBytes x = upload(halves(static_cast<std::size_t>(kMax) * kColumns));
  const NormedRows rows{
      .x = raw.as<const float>(), .norm = {norm.as<const float>(), 1.0F, 1e-6F}, .factor = 0.75F};
  const DeviceBytes normed(static_cast<std::size_t>(8) * kColumns * sizeof(Bf16));
  const DeviceBytes apart(static_cast<std::size_t>(kMax) * kOutputs * sizeof(Bf16));
  const auto gated_apart = [&](const Bf16* from, int m, GateFunction act) {
    DeviceBytes y(static_cast<std::size_t>(m) * kOutputs / 2 * sizeof(Bf16));
    decode_gemm(from, m, both.weight, apart.data(), GemmOutput::kBf16, stream_->handle());
    gate_rows(apart.as<const Bf16>(), m, kOutputs / 2, act, 1.0F, y.as<Bf16>(), stream_->handle());
    return download<Bf16>(y);
  };
  for (const int m : {1, 5, 8}) {
    norm_for_decode(rows.x, m, kColumns, rows.norm, rows.factor, normed.as<Bf16>(), stream_->handle());
    const DeviceBytes wanted(static_cast<std::size_t>(m) * kOutputs * sizeof(Bf16));
    const DeviceBytes together(wanted.size());
    decode_gemm(normed.as<const Bf16>(), m, both.weight, wanted.data(), GemmOutput::kBf16, stream_->handle());
    fused.normed(rows, m, both.weight, together.data(), GemmOutput::kBf16, stream_->handle());
    EXPECT_TRUE(test::same_bits(download<Bf16>(together), download<Bf16>(wanted))) << m;
    const DeviceBytes gated(static_cast<std::size_t>(m) * kOutputs / 2 * sizeof(Bf16));
    fused.normed_gated(rows, m, both.weight, {gated.as<Bf16>(), GateFunction::kSilu, 1.0F},
                       stream_->handle());
    EXPECT_TRUE(
        test::same_bits(download<Bf16>(gated), gated_apart(normed.as<const Bf16>(), m, GateFunction::kSilu)))
        << m;
  }
  for (const int m : {1, 8, 9, 64, kMax}) {
    const DeviceBytes gated(static_cast<std::size_t>(m) * kOutputs / 2 * sizeof(Bf16));
    fused.gated(x.as<const Bf16>(), m, both.weight, {gated.as<Bf16>(), GateFunction::kGelu, 1.0F},
                stream_->handle());
    EXPECT_TRUE(
        test::same_bits(download<Bf16>(gated), gated_apart(x.as<const Bf16>(), m, GateFunction::kGelu)))
        << m;
  }
}

TEST_P(CudaQuants, PartsOfAWeightStandBesideEachOther) {
  constexpr int kColumns = 512;
  constexpr int kOutputs[] = {24, 40};
  const Stored first(random_, *GetParam(), kOutputs[0], kColumns);
  const Stored second(random_, kQ6_KFormat, kOutputs[1], kColumns);
  const Both of[] = {on_device(first), on_device(second)};
  std::vector<DeviceWeight> parts = {of[0].weight, of[1].weight};
  for (DeviceWeight& part : parts) part.part_of = kOutputs[0] + kOutputs[1];
  const DeviceBytes x = upload(halves(static_cast<std::size_t>(64) * kColumns));
  PrefillGemm gemm;
  for (const int m : {1, 20, 64}) {
    for (const bool prefill : {false, true}) {
      const auto multiply = [&](std::span<const DeviceWeight> weights, std::size_t outputs) {
        const DeviceBytes y(64 * outputs * sizeof(float));
        fill(y.data(), 0, y.size(), stream_->handle());
        if (prefill) {
          gemm.multiply(x.as<const Bf16>(), m, weights, y.data(), GemmOutput::kF32, stream_->handle());
        } else {
          decode_gemm(x.as<const Bf16>(), m, weights, y.data(), GemmOutput::kF32, stream_->handle());
        }
        return download<float>(y);
      };
      const std::vector<float> whole = multiply(parts, 64);
      std::size_t begin = 0;
      for (const Both& one : of) {
        // Prefill kernels for other shapes may sum in another order.
        const auto outputs = static_cast<std::size_t>(one.weight.rows);
        const std::vector<float> alone = multiply(std::span(&one.weight, 1), outputs);
        for (std::size_t row = 0; row < static_cast<std::size_t>(m); ++row) {
          for (std::size_t i = 0; i < outputs; ++i) {
            const float got = whole[row * 64 + begin + i];
            const float wanted = alone[row * outputs + i];
            if (prefill) {
              ASSERT_NEAR(got, wanted, 1e-4F * (1 + std::abs(wanted))) << m;
            } else {
              ASSERT_EQ(got, wanted) << m;
            }
          }
        }
        begin += outputs;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, CudaQuants, testing::ValuesIn(kKept),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace reprise::gpu::cuda
