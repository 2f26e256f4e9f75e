// GEMMs and row kernels on a GPU compared with the CPU's; a row's bits do not depend on the number of rows.

#include <cstring>

#include "gpu/cuda/gemm/decode_gemm.h"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/embedding.h"
#include "gpu/cuda/rows/rows.h"
#include "gpu/weights/kept_formats.h"
#include "tests/gpu/cuda_rig.h"
#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::cuda {
namespace {

using test::from_bf16;
using test::Random;
using test::random_bf16;

Bf16 to_bf16(float value) {
  Bf16 bits = 0;
  test::plain().to_bf16(&value, &bits, 1);
  return bits;
}

using CudaGemmTest = test::CudaRig<testing::Test>;

struct Product {
  int m;
  int n;
  int k;
};

// In double, from the same bf16 values.
std::vector<double> expected(const std::vector<Bf16>& x, const std::vector<Bf16>& w, const Product& p) {
  std::vector<double> y(static_cast<std::size_t>(p.m) * p.n);
  for (int i = 0; i < p.m; ++i) {
    for (int j = 0; j < p.n; ++j) {
      double sum = 0;
      for (int k = 0; k < p.k; ++k) {
        sum += static_cast<double>(from_bf16(x[static_cast<std::size_t>(i) * p.k + k])) *
               static_cast<double>(from_bf16(w[static_cast<std::size_t>(j) * p.k + k]));
      }
      y[static_cast<std::size_t>(i) * p.n + j] = sum;
    }
  }
  return y;
}

TEST(CudaFormats, TheTableSaysWhatIsKeptAsWhat) {
  Random random(6);
  for (const WeightFormat* stored : {&kF32Format, &kF16Format, &kBF16Format}) {
    const DeviceUpload* upload = find_upload(*stored);
    ASSERT_NE(upload, nullptr) << stored->name;
    EXPECT_EQ(upload->kept, &kBf16OnDevice) << stored->name;
    const test::OwnedMatrix weight = random.matrix(*stored, 3, 40);
    std::vector<Bf16> kept(weight.values.size());
    if (upload->convert == nullptr) {
      ASSERT_EQ(upload->stored, upload->kept->format);
      kept = weight.halves;
    } else {
      upload->convert(weight.view(), reinterpret_cast<std::byte*>(kept.data()));
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      ASSERT_EQ(kept[i], to_bf16(weight.values[i])) << stored->name << " at " << i;
    }
  }
  for (const WeightFormat* stored :
       {&kQ8_0Format, &kQ4_0Format, &kQ4_KFormat, &kQ5_KFormat, &kQ6_KFormat, &kIQ4_XSFormat, &kF8TileFormat,
        &kF8RowFormat, &kQ4_1Format, &kQ5_0Format, &kQ5_1Format, &kQ2_KFormat, &kQ3_KFormat, &kIQ4_NLFormat,
        &kMXFP4Format, &kInt4Format}) {
    const DeviceUpload* upload = find_upload(*stored);
    ASSERT_NE(upload, nullptr) << stored->name;
    EXPECT_EQ(upload->kept != &kBf16OnDevice, is_kept_on_gpu(*stored)) << stored->name;
    EXPECT_EQ(upload->kept->bytes(40, 512), gpu_weight_bytes(*stored, 40, 512)) << stored->name;
  }
  constexpr WeightFormat kUnknown{.name = "UNKNOWN", .block_size = 32, .block_bytes = 34, .alignment = 2};
  EXPECT_EQ(find_upload(kUnknown), nullptr);
}

TEST_F(CudaGemmTest, RowsOfATableAreReadAsOnTheCpu) {
  Random random(7);
  const test::OwnedMatrix table = random.matrix(kBF16Format, 50, 88);
  const DeviceBytes on_table = upload(table.halves);
  const DeviceWeight weight{.format = &kBf16OnDevice, .data = on_table.data(), .rows = 50, .columns = 88};
  const std::vector<std::int32_t> tokens = {0, 49, 7, 7};
  const DeviceBytes on_tokens = upload(tokens);
  const DeviceBytes y(tokens.size() * 88 * sizeof(float));
  embed(on_tokens.as<const std::int32_t>(), 4, weight, y.as<float>(), stream_->handle());
  const std::vector<float> got = download<float>(y);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::vector<float> row(88);
    test::plain()
        .format(kBF16Format)
        .widen_row(table.view(), static_cast<std::size_t>(tokens[i]), row.data());
    EXPECT_EQ(std::memcmp(row.data(), got.data() + i * 88, 88 * sizeof(float)), 0) << tokens[i];
  }
}

TEST_F(CudaGemmTest, BothFormsComputeTheProduct) {
  Random random(1);
  PrefillGemm gemm;
  for (const Product p : {Product{1, 8, 8}, Product{3, 200, 64}, Product{17, 512, 160}, Product{33, 64, 448},
                          Product{64, 24, 1024}, Product{100, 328, 256}}) {
    const std::vector<Bf16> x = random_bf16(random, static_cast<std::size_t>(PrefillGemm::padded(p.m)) * p.k);
    const std::vector<Bf16> w = random_bf16(random, static_cast<std::size_t>(p.n) * p.k);
    const std::vector<double> wanted = expected(x, w, p);
    const DeviceBytes on_x = upload(x);
    const DeviceBytes on_w = upload(w);
    const DeviceWeight weight{.format = &kBf16OnDevice, .data = on_w.data(), .rows = p.n, .columns = p.k};
    const std::size_t rows = static_cast<std::size_t>(PrefillGemm::padded(p.m));
    for (const bool prefill : {true, false}) {
      for (const GemmOutput output : {GemmOutput::kBf16, GemmOutput::kF32, GemmOutput::kAddF32}) {
        const std::size_t element = output == GemmOutput::kBf16 ? 2 : 4;
        const DeviceBytes y(rows * p.n * element);
        const std::vector<float> before(rows * p.n, 3.0F);
        if (element == 4) copy_to_device(y.data(), before.data(), y.size(), stream_->handle());
        if (prefill) {
          gemm.multiply(on_x.as<const Bf16>(), p.m, weight, y.data(), output, stream_->handle());
        } else {
          decode_gemm(on_x.as<const Bf16>(), p.m, weight, y.data(), output, stream_->handle());
        }
        stream_->wait();
        std::vector<float> got(rows * p.n);
        if (element == 4) {
          got = download<float>(y);
        } else {
          const std::vector<Bf16> bits = download<Bf16>(y);
          for (std::size_t i = 0; i < bits.size(); ++i) got[i] = from_bf16(bits[i]);
        }
        const double offset = output == GemmOutput::kAddF32 ? 3 : 0;
        const double tolerance = (element == 2 ? 4e-3 : 1e-5) * std::sqrt(p.k) * 4;
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          ASSERT_NEAR(got[i], wanted[i] + offset, tolerance)
              << p.m << " x " << p.n << " x " << p.k << (prefill ? " prefill" : " decode") << " at " << i;
        }
      }
    }
  }
}

TEST_F(CudaGemmTest, ADecodedRowHasTheSameBitsInEveryBatch) {
  Random random(2);
  const int k = 1096;
  const int most = 200;
  // with and without clusters, and with or without 16 rows per block
  for (const int n : {1040, 3080, 6008, 8456}) {
    const DeviceBytes x = upload(random_bf16(random, static_cast<std::size_t>(most) * k));
    const DeviceBytes w = upload(random_bf16(random, static_cast<std::size_t>(n) * k));
    const DeviceWeight weight{.format = &kBf16OnDevice, .data = w.data(), .rows = n, .columns = k};
    const DeviceBytes y(static_cast<std::size_t>(most) * n * sizeof(float));
    decode_gemm(x.as<const Bf16>(), most, weight, y.data(), GemmOutput::kF32, stream_->handle());
    const std::vector<float> whole = download<float>(y);
    for (const int m : {1, 2, 7, 8, 9, 12, 16, 17, 32, 33, 64, 65, 128}) {
      for (const int first : {0, 3, most - m}) {
        const DeviceBytes part(static_cast<std::size_t>(m) * n * sizeof(float));
        decode_gemm(x.as<const Bf16>() + static_cast<std::size_t>(first) * k, m, weight, part.data(),
                    GemmOutput::kF32, stream_->handle());
        const std::vector<float> got = download<float>(part);
        ASSERT_EQ(std::memcmp(got.data(), whole.data() + static_cast<std::size_t>(first) * n,
                              got.size() * sizeof(float)),
                  0)
            << m << " rows from " << first << " of " << n << " outputs";
      }
    }
  }
}

TEST_F(CudaGemmTest, FusedNormAndGateMatchSeparateKernels) {
  Random random(8);
  for (const auto& [half, k] : {std::pair{24, 72}, {512, 1024}, {3584, 1024}, {520, 2056}}) {
    const int n = 2 * half;
    const int most = 40;
    const DeviceBytes w = upload(random_bf16(random, static_cast<std::size_t>(n) * k));
    const DeviceWeight weight{.format = &kBf16OnDevice, .data = w.data(), .rows = n, .columns = k};
    const DeviceBytes x = upload(random.floats(static_cast<std::size_t>(most) * k));
    const DeviceBytes norm_weight = upload(random.floats(k));
    const RowNorm norm{.weight = norm_weight.as<const float>(), .offset = 1.0F, .eps = 1e-6F};
    const NormedRows rows{.x = x.as<const float>(), .norm = norm, .factor = 0.75F};
    const DeviceBytes normed(static_cast<std::size_t>(most) * k * sizeof(Bf16));
    const DeviceBytes apart(static_cast<std::size_t>(most) * n * sizeof(Bf16));
    const DeviceBytes gated(static_cast<std::size_t>(most) * half * sizeof(Bf16));
    const DeviceBytes together(apart.size());
    const GatedRows to{.y = together.as<Bf16>(), .act = GateFunction::kSilu, .gate_factor = 1};
    const auto expect_same = [&](const DeviceBytes& wanted, int m, int outputs, const char* what) {
      const std::vector<Bf16> a = download<Bf16>(wanted);
      const std::vector<Bf16> b = download<Bf16>(together);
      ASSERT_EQ(std::memcmp(a.data(), b.data(), static_cast<std::size_t>(m) * outputs * sizeof(Bf16)), 0)
          << what << ", " << m << " rows, " << n << " x " << k;
    };
    for (const int m : {1, 3, 8, 9, 16, 40}) {
      norm_for_decode(x.as<const float>(), m, k, norm, rows.factor, normed.as<Bf16>(), stream_->handle());
      decode_gemm(normed.as<const Bf16>(), m, weight, apart.data(), GemmOutput::kBf16, stream_->handle());
      gate_rows(apart.as<const Bf16>(), m, half, to.act, to.gate_factor, gated.as<Bf16>(), stream_->handle());
      decode_bf16_gated(normed.as<const Bf16>(), m, weight, to, stream_->handle());
      expect_same(gated, m, half, "gated");
      if (m > kMaxNormedRows) continue;
      decode_bf16_normed(rows, m, weight, together.data(), GemmOutput::kBf16, stream_->handle());
      expect_same(apart, m, n, "normed");
      const auto elements = static_cast<std::size_t>(m) * static_cast<std::size_t>(k);
      const DeviceBytes kept(elements * sizeof(Bf16));
      NormedRows keeping = rows;
      keeping.kept = kept.as<Bf16>();
      decode_bf16_normed(keeping, m, weight, together.data(), GemmOutput::kBf16, stream_->handle());
      expect_same(apart, m, n, "normed, rows kept");
      EXPECT_EQ(download<Bf16>(kept), download<Bf16>(normed, elements)) << "what was kept";
      decode_bf16_normed_gated(rows, m, weight, to, stream_->handle());
      expect_same(gated, m, half, "normed and gated");
    }
  }
}

TEST_F(CudaGemmTest, TilesHaveTheBitsOfTheProductOfFewRows) {
  Random random(9);
  for (const auto& [n, k] : {std::pair{1024, 3584}, {1000, 200}, {3080, 520}, {6000, 1024}, {8224, 1024}}) {
    for (const int m : {8, 11, 16}) {
      const DeviceBytes x = upload(random_bf16(random, static_cast<std::size_t>(m) * k));
      const DeviceBytes w = upload(random_bf16(random, static_cast<std::size_t>(n) * k));
      const DeviceWeight weight{.format = &kBf16OnDevice, .data = w.data(), .rows = n, .columns = k};
      const DeviceBytes few(static_cast<std::size_t>(m) * n * sizeof(float));
      const DeviceBytes tiled(few.size());
      decode_bf16(x.as<const Bf16>(), m, weight, few.data(), GemmOutput::kF32, stream_->handle());
      if (!can_use_tiled(weight, 64, false)) continue;
      decode_in_tiles(x.as<const Bf16>(), m, weight, tiled.data(), GemmOutput::kF32, stream_->handle());
      EXPECT_EQ(download<float>(few), download<float>(tiled)) << m << " rows, " << n << " x " << k;
    }
  }
}

TEST_F(CudaGemmTest, PrefillProductsOfModelsAreAdmitted) {
  Random random(3);
  PrefillGemm gemm;
  // Shapes of Qwen3.5-0.8B and 4B.
  for (const auto& [n, k] : {std::pair{8224, 1024},
                             {1024, 2048},
                             {5120, 1024},
                             {7168, 1024},
                             {1024, 3584},
                             {12352, 2560},
                             {2560, 4096},
                             {18432, 2560},
                             {2560, 9216}}) {
    const DeviceBytes w = upload(random_bf16(random, static_cast<std::size_t>(n) * k));
    const DeviceWeight weight{.format = &kBf16OnDevice, .data = w.data(), .rows = n, .columns = k};
    const GemmOutput output = n < 3000 ? GemmOutput::kAddF32 : GemmOutput::kBf16;
    EXPECT_TRUE(gemm.admit(weight, output, 2048)) << n << " x " << k;
  }
}

TEST_F(CudaGemmTest, RowKernelsAgreeWithTheCpu) {
  Random random(4);
  const int rows = 5;
  for (const int size : {64, 160, 1024, 2560}) {
    const std::vector<float> x = random.floats(static_cast<std::size_t>(rows) * size);
    const std::vector<float> weight = random.floats(size);
    std::vector<float> wanted(x.size());
    test::plain().rms_norm(x.data(), weight.data(), 1.0F, 1e-6F, wanted.data(), rows, size, size);
    const DeviceBytes on_x = upload(x);
    const DeviceBytes on_weight = upload(weight);
    const DeviceBytes y(x.size() * sizeof(Bf16));
    const RowNorm norm{.weight = on_weight.as<const float>(), .offset = 1.0F, .eps = 1e-6F};
    rms_norm(on_x.as<const float>(), nullptr, rows, size, norm, 1, y.as<Bf16>(), stream_->handle());
    std::vector<Bf16> got = download<Bf16>(y);
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(from_bf16(got[i]), wanted[i], std::abs(wanted[i]) / 128 + 1e-6) << size << " at " << i;
    }

    const std::vector<Bf16> pairs = random_bf16(random, static_cast<std::size_t>(rows) * 2 * size);
    const DeviceBytes on_pairs = upload(pairs);
    gate_rows(on_pairs.as<const Bf16>(), rows, size, GateFunction::kSilu, 1, y.as<Bf16>(), stream_->handle());
    got = download<Bf16>(y);
    for (int row = 0; row < rows; ++row) {
      for (int i = 0; i < size; ++i) {
        const float gate = from_bf16(pairs[static_cast<std::size_t>(row) * 2 * size + i]);
        const float up = from_bf16(pairs[static_cast<std::size_t>(row) * 2 * size + size + i]);
        float one = 0;
        test::plain().swiglu(&gate, &up, &one, 1);
        ASSERT_NEAR(from_bf16(got[static_cast<std::size_t>(row) * size + i]), one,
                    std::abs(one) / 128 + 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace reprise::gpu::cuda
