// Quantised weights on the GPU: the bf16 that they stand for against their definition, and every product with them
// against the same product with that bf16, by their bits. Without a GPU all of it is skipped.

#include <algorithm>
#include <cstring>
#include <optional>

#include "gpu/cuda/gemm.h"
#include "gpu/cuda/rows.h"
#include "gpu/cuda/stream.h"
#include "gpu/devices.h"
#include "tests/gpu/naive_quants.h"
#include "tests/gpu/naive_scaled.h"

namespace reprise::gpu::cuda {
namespace {

using test::from_bf16;
using test::Random;

const WeightFormat* const kKept[] = {&kQ8_0Format, &kQ4_0Format,   &kQ4_KFormat,   &kQ5_KFormat,
                                     &kQ6_KFormat, &kIQ4_XSFormat, &kF8TileFormat, &kF8RowFormat};

/// A random weight of any of them, with the values it stands for.
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

class CudaQuants : public testing::TestWithParam<const WeightFormat*> {
 protected:
  void SetUp() override {
    if (list_devices().empty()) GTEST_SKIP() << "no GPU here";
    stream_.emplace();
  }

  template <class T>
  DeviceBytes upload(const std::vector<T>& values) {
    DeviceBytes bytes(std::max<std::size_t>(16, values.size() * sizeof(T)));
    copy_to_device(bytes.data(), values.data(), values.size() * sizeof(T), stream_->handle());
    stream_->wait();
    return bytes;
  }
  template <class T>
  std::vector<T> download(const DeviceBytes& bytes) {
    std::vector<T> values(bytes.size() / sizeof(T));
    copy_to_host(values.data(), bytes.data(), bytes.size(), stream_->handle());
    stream_->wait();
    return values;
  }
  std::vector<Bf16> halves(std::size_t count) {
    const std::vector<float> values = random_.floats(count);
    std::vector<Bf16> out(count);
    test::plain().to_bf16(values.data(), out.data(), count);
    return out;
  }

  /// A weight as the GPU keeps it, and the same as rows of bf16.
  struct Both {
    DeviceBytes packed;
    DeviceBytes rows_of_bf16;
    DeviceWeight weight;
    DeviceWeight plain;
  };
  /// Put there in two pieces, the second of which begins inside a block.
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
  std::optional<Stream> stream_;
};

TEST_P(CudaQuants, TakeTheSizeThatTheyHaveInFiles) {
  const DeviceFormat& format = *find_upload(*GetParam())->kept;
  const WeightView view{.format = GetParam(), .rows = 1024, .columns = 2048};
  const std::size_t scales =
      GetParam()->scales.rows == 0 ? 0 : view.bytes() / 32;  // 4 bytes for 128 elements
  EXPECT_LE(format.bytes(1024, 2048), view.bytes() + scales);
  EXPECT_FALSE(format.is_rows_of_bf16);
}

TEST_P(CudaQuants, AreTheNearestBf16OrItsNeighbour) {
  const Stored stored(random_, *GetParam(), 45, 768);
  const Both both = on_device(stored);
  const std::vector<Bf16> got = download<Bf16>(both.rows_of_bf16);
  const std::vector<float>& wanted = stored.values();
  ASSERT_EQ(got.size(), wanted.size());
  const bool has_offsets = GetParam() == &kQ4_KFormat || GetParam() == &kQ5_KFormat;
  for (std::size_t i = 0; i < got.size(); ++i) {
    // What is added has an error of its own, of the size of its last bit; blocks of 32 share it.
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

/// Few outputs and many: half tiles, whole ones, clusters that share a sum and blocks that do not.
const Shape kShapes[] = {{8, 256}, {200, 512}, {3080, 768}, {6400, 256}};

TEST_P(CudaQuants, ProductsHaveTheBitsOfThoseWithBf16) {
  PrefillGemm gemm;
  for (const Shape& shape : kShapes) {
    const Stored stored(random_, *GetParam(), shape.rows, shape.columns);
    const Both both = on_device(stored);
    const DeviceBytes x = upload(halves(static_cast<std::size_t>(128) * shape.columns));
    for (const int m : {1, 3, 8, 9, 16, 17, 40, 64, 70}) {
      for (const GemmOutput output : {GemmOutput::kBf16, GemmOutput::kF32, GemmOutput::kAddF32}) {
        for (const bool prefill : {false, true}) {
          const std::size_t rows = prefill ? PrefillGemm::padded(m) : m;
          const std::size_t bytes = rows * shape.rows * (output == GemmOutput::kBf16 ? 2 : 4);
          const DeviceBytes y(bytes);
          const DeviceBytes same(bytes);
          for (const DeviceBytes* to : {&y, &same}) {
            fill(to->data(), 0, bytes, stream_->handle());
            const DeviceWeight& weight = to == &y ? both.weight : both.plain;
            if (prefill) {
              gemm.multiply(x.as<const Bf16>(), m, weight, to->data(), output, stream_->handle());
            } else {
              decode_gemm(x.as<const Bf16>(), m, weight, to->data(), output, stream_->handle());
            }
          }
          ASSERT_TRUE(test::same_bits(download<std::uint16_t>(y), download<std::uint16_t>(same)))
              << GetParam()->name << " " << shape.rows << " x " << shape.columns << ", " << m << " rows"
              << (prefill ? " of a prefill" : "") << ", output " << static_cast<int>(output);
        }
      }
    }
  }
}

TEST_P(CudaQuants, NormAndGateHaveTheBitsOfThoseWithBf16) {
  constexpr int kColumns = 512;
  const Stored stored(random_, *GetParam(), 2 * 208, kColumns);
  const Both both = on_device(stored);
  const DeviceBytes raw = upload(random_.floats(static_cast<std::size_t>(8) * kColumns));
  const DeviceBytes norm = upload(random_.floats(kColumns));
  const DeviceBytes x = upload(halves(static_cast<std::size_t>(70) * kColumns));
  const NormedRows rows{
      .x = raw.as<const float>(), .norm = {norm.as<const float>(), 1.0F, 1e-6F}, .factor = 1.0F};
  const auto both_ways = [&](std::size_t bytes, const auto& compute) {
    const DeviceBytes y(bytes);
    const DeviceBytes same(bytes);
    compute(both.weight, y);
    compute(both.plain, same);
    return test::same_bits(download<std::uint16_t>(y), download<std::uint16_t>(same));
  };
  for (const int m : {1, 5, 8}) {
    EXPECT_TRUE(both_ways(m * 416UL * 2, [&](const DeviceWeight& weight, const DeviceBytes& y) {
      weight.format->fused->normed(rows, m, weight, y.data(), GemmOutput::kBf16, stream_->handle());
    })) << m;
    EXPECT_TRUE(both_ways(m * 208UL * 2, [&](const DeviceWeight& weight, const DeviceBytes& y) {
      weight.format->fused->normed_gated(rows, m, weight, {y.as<Bf16>(), GateFunction::kSilu, 1.0F},
                                         stream_->handle());
    })) << m;
  }
  for (const int m : {1, 8, 9, 64, 70}) {
    EXPECT_TRUE(both_ways(m * 208UL * 2, [&](const DeviceWeight& weight, const DeviceBytes& y) {
      weight.format->fused->gated(x.as<const Bf16>(), m, weight, {y.as<Bf16>(), GateFunction::kGelu, 1.0F},
                                  stream_->handle());
    })) << m;
  }
}

TEST_P(CudaQuants, PartsOfAWeightStandBesideEachOther) {
  constexpr int kColumns = 512;
  const Stored first(random_, *GetParam(), 24, kColumns);
  const Stored second(random_, kQ6_KFormat, 40, kColumns);
  const Both a = on_device(first);
  const Both b = on_device(second);
  std::vector<Bf16> joined = download<Bf16>(a.rows_of_bf16);
  const std::vector<Bf16> rest = download<Bf16>(b.rows_of_bf16);
  joined.insert(joined.end(), rest.begin(), rest.end());
  const DeviceBytes on_joined = upload(joined);
  const DeviceWeight whole{
      .format = &kBf16OnDevice, .data = on_joined.data(), .rows = 64, .columns = kColumns};
  std::vector<DeviceWeight> parts = {a.weight, b.weight};
  for (DeviceWeight& part : parts) part.part_of = 64;
  const DeviceBytes x = upload(halves(static_cast<std::size_t>(64) * kColumns));
  PrefillGemm gemm;
  for (const int m : {1, 20, 64}) {
    for (const bool prefill : {false, true}) {
      const DeviceBytes y(static_cast<std::size_t>(64) * 64 * 4);
      const DeviceBytes same(y.size());
      for (const DeviceBytes* to : {&y, &same}) fill(to->data(), 0, to->size(), stream_->handle());
      if (prefill) {
        gemm.multiply(x.as<const Bf16>(), m, parts, y.data(), GemmOutput::kF32, stream_->handle());
        gemm.multiply(x.as<const Bf16>(), m, whole, same.data(), GemmOutput::kF32, stream_->handle());
      } else {
        decode_gemm(x.as<const Bf16>(), m, parts, y.data(), GemmOutput::kF32, stream_->handle());
        decode_gemm(x.as<const Bf16>(), m, whole, same.data(), GemmOutput::kF32, stream_->handle());
      }
      EXPECT_TRUE(test::same_bits(download<float>(y), download<float>(same))) << m;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, CudaQuants, testing::ValuesIn(kKept),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace reprise::gpu::cuda
