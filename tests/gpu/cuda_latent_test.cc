// Latent attention on a GPU compared with the CPU's kernels as a model composes them, and bitwise with
// itself.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "gpu/cuda/attention/latent.h"
#include "gpu/devices.h"
#include "tests/gpu/cuda_attention_rig.h"
#include "tests/require.h"

namespace reprise::gpu::cuda::test {
namespace {

using gpu::test::plain;
using gpu::test::same_bits;

/// Inputs of one sequence; queries are representable in a Row.
struct LatentTokens {
  int length;
  std::vector<float> queries;   // [length, heads, plain_dim + rotary_dim]
  std::vector<float> compared;  // [length, heads, rank]
  std::vector<float> made;      // [length, rank + rotary_dim]
  std::vector<int> pages;       // indices in the rig's pool
};

struct LatentPiece {
  const LatentTokens* tokens;
  int begin;
  int end;
};

/// Row: element type of activations.
template <class Row>
class LatentRig {
 public:
  static constexpr std::size_t kPagesInAll = 40;

  LatentRig(const LatentShape& shape, std::uint64_t seed)
      : shape_(shape), random_(seed), pool_(kPagesInAll * page_bytes()) {
    norm_ = random_.between(size(shape.rank), 0.5F, 1.5F);
    for (int i = 0; i < shape.rope_pairs; ++i) frequencies_.push_back(std::pow(0.7F, static_cast<float>(i)));
    forget();
  }

  void forget() { fill(pool_.data(), 0xff, pool_.size(), stream_.handle()); }
  std::size_t width() const { return size(shape_.heads * shape_.rank); }

  LatentTokens tokens(int length) {
    LatentTokens out{.length = length,
                     .queries = random_rows<Row>(
                         random_, size(length * shape_.heads * (shape_.plain_dim + shape_.rotary_dim))),
                     .compared = random_rows<Row>(random_, size(length * shape_.heads * shape_.rank)),
                     .made = random_.floats(size(length * shape_.stored())),
                     .pages = {}};
    for (int page = 0; page * kGrid < length; ++page) out.pages.push_back(next_page_++);
    EXPECT_LE(next_page_, static_cast<int>(kPagesInAll));
    return out;
  }

  /// Output of all pieces in order, [rows, heads * rank].
  std::vector<Row> run(const std::vector<LatentPiece>& pieces, bool is_prefill) {
    std::vector<BatchSlice> slices;
    std::vector<BatchTile> tiles;
    std::vector<std::int32_t> row_slice, positions;
    std::vector<float> queries, compared, made;
    const auto dim = size(shape_.compared());
    const auto rank = size(shape_.rank);
    int longest = 0;
    for (const LatentPiece& piece : pieces) {
      const auto index = static_cast<std::int32_t>(slices.size());
      const int rows = piece.end - piece.begin;
      std::vector<std::byte*> pages;
      for (int page = 0; page * kGrid < piece.end; ++page) {
        pages.push_back(pool_.data() + size(piece.tokens->pages[size(page)]) * page_bytes());
      }
      slices.push_back({.first_row = static_cast<std::int32_t>(row_slice.size()),
                        .rows = rows,
                        .stored = piece.begin,
                        .slot = nullptr,
                        .pages = upload(pages)});
      for (int first = 0; is_prefill && first < rows; first += kGrid) tiles.push_back({index, first});
      const auto append = [&](auto& to, const auto& from, std::size_t each) {
        to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(size(piece.begin) * each),
                  from.begin() + static_cast<std::ptrdiff_t>(size(piece.end) * each));
      };
      append(queries, piece.tokens->queries, size(shape_.heads * (shape_.plain_dim + shape_.rotary_dim)));
      append(made, piece.tokens->made, size(shape_.stored()));
      for (int row = piece.begin; row < piece.end; ++row) {
        row_slice.push_back(index);
        positions.push_back(row);
        for (std::size_t head = 0; head < size(shape_.heads); ++head) {
          const float* from = piece.tokens->compared.data() + (size(row * shape_.heads) + head) * rank;
          compared.insert(compared.end(), from, from + rank);
          compared.insert(compared.end(), dim - rank, std::nanf(""));
        }
      }
      longest = std::max(longest, piece.end);
    }
    const auto rows = static_cast<int>(row_slice.size());
    const Batch batch{.slices = upload(slices),
                      .tiles = upload(tiles),
                      .row_slice = upload(row_slice),
                      .tokens = nullptr,
                      .positions = upload(positions),
                      .slice_count = static_cast<int>(slices.size()),
                      .tile_count = static_cast<int>(tiles.size()),
                      .rows = rows,
                      .longest = longest};
    std::vector<float> angles(size(rows * shape_.rope_pairs));
    float* cosine = upload(angles);
    float* sine = upload(angles);
    rope_table({.positions = batch.positions,
                .inv_freq = upload(frequencies_),
                .pairs = shape_.rope_pairs,
                .cosine = cosine,
                .sine = sine},
               rows, stream_.handle());
    std::vector<Row> out(size(rows) * width());
    Row* on_out = upload(out);
    std::vector<std::byte> workspace(latent_workspace<Row>(shape_, rows, batch.tile_count, longest));
    latent_attention(shape_, batch,
                     LatentPass<Row>{.queries = upload(as_rows<Row>(queries)),
                                     .query_stride = shape_.heads * (shape_.plain_dim + shape_.rotary_dim),
                                     .made = upload(made),
                                     .made_stride = shape_.stored(),
                                     .norm = upload(norm_),
                                     .rope_cos = cosine,
                                     .rope_sin = sine,
                                     .compared = upload(as_rows<Row>(compared)),
                                     .out = on_out,
                                     .workspace = upload(workspace)},
                     stream_.handle());
    copy_to_host(out.data(), reinterpret_cast<const std::byte*>(on_out), out.size() * sizeof(Row),
                 stream_.handle());
    stream_.wait();
    uploads_.clear();
    return out;
  }

  /// Reference for all rows of a sequence with the CPU's kernels; with `held`, over the contents of its
  /// pages.
  std::vector<float> reference(const LatentTokens& tokens, const std::vector<std::byte>& held = {}) const {
    const auto rank = size(shape_.rank);
    const auto stored = size(shape_.stored());
    const auto turned = size(shape_.rotary_dim);
    std::vector<std::byte> latents(tokens.pages.size() * kGrid * token_bytes());
    std::copy(held.begin(), held.end(), latents.begin());
    std::vector<const std::byte*> pointers;
    for (std::size_t page = 0; page < tokens.pages.size(); ++page) {
      pointers.push_back(&latents[page * kGrid * token_bytes()]);
    }
    std::vector<float> all;
    for (std::size_t row = 0; row < size(tokens.length); ++row) {
      std::vector<float> latent(tokens.made.begin() + static_cast<std::ptrdiff_t>(row * stored),
                                tokens.made.begin() + static_cast<std::ptrdiff_t>((row + 1) * stored));
      plain().rms_norm(latent.data(), norm_.data(), shape_.norm_offset, shape_.norm_eps, latent.data(), 1,
                       rank, rank);
      rotate(latent.data() + rank, row);
      std::byte* destination = &latents[row * token_bytes()];
      if (held.empty() && shape_.kv == KvType::kF32) {
        std::memcpy(destination, latent.data(), token_bytes());
      } else if (held.empty()) {
        plain().to_bf16(latent.data(), reinterpret_cast<Bf16*>(destination), stored);
      }
      std::vector<float> q;
      for (std::size_t head = 0; head < size(shape_.heads); ++head) {
        const std::size_t at = row * size(shape_.heads) + head;
        const float* compared = tokens.compared.data() + at * rank;
        q.insert(q.end(), compared, compared + rank);
        const float* query =
            tokens.queries.data() + at * size(shape_.plain_dim + shape_.rotary_dim) + shape_.plain_dim;
        std::vector<float> of_query(query, query + turned);
        rotate(of_query.data(), row);
        q.insert(q.end(), of_query.begin(), of_query.end());
      }
      std::vector<float> out(width());
      plain().attention({.q = q.data(),
                         .out = out.data(),
                         .group = size(shape_.heads),
                         .head_dim = stored,
                         .value_dim = rank,
                         .length = row + 1,
                         .scale = shape_.score_scale,
                         .pages = pointers.data(),
                         .k_offset = 0,
                         .v_offset = 0,
                         .kv = shape_.kv});
      all.insert(all.end(), out.begin(), out.end());
    }
    return all;
  }

  /// The bytes of the sequence's tokens in its pages.
  std::vector<std::byte> stored(const LatentTokens& tokens) {
    std::vector<std::byte> pool(pool_.size());
    copy_to_host(pool.data(), pool_.data(), pool.size(), stream_.handle());
    stream_.wait();
    std::vector<std::byte> out;
    const std::size_t token = token_bytes();
    for (int row = 0; row < tokens.length; ++row) {
      const auto from =
          pool.begin() + static_cast<std::ptrdiff_t>(size(tokens.pages[size(row / kGrid)]) * page_bytes() +
                                                     shape_.offset + size(row % kGrid) * token);
      out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(token));
    }
    return out;
  }

 private:
  static std::size_t size(int value) { return static_cast<std::size_t>(value); }
  std::size_t token_bytes() const { return kv_row_bytes(shape_.kv, size(shape_.stored())); }
  std::size_t page_bytes() const { return shape_.offset + kGrid * token_bytes(); }
  /// Rope as in models/cpu/mla.cc.
  void rotate(float* x, std::size_t position) const {
    if (frequencies_.empty()) return;
    if (shape_.neighbors) {
      const std::size_t half = size(shape_.rotary_dim) / 2;
      std::vector<float> apart(size(shape_.rotary_dim));
      for (std::size_t i = 0; i < half; ++i) {
        apart[i] = x[2 * i];
        apart[half + i] = x[2 * i + 1];
      }
      std::copy(apart.begin(), apart.end(), x);
    }
    std::vector<float> cosine, sine;
    for (const float frequency : frequencies_) {
      cosine.push_back(std::cos(static_cast<float>(position) * frequency));
      sine.push_back(std::sin(static_cast<float>(position) * frequency));
    }
    plain().rope(x, cosine.data(), sine.data(), frequencies_.size());
  }
  template <class T>
  T* upload(const std::vector<T>& values) {
    uploads_.emplace_back(std::max<std::size_t>(values.size(), 1) * sizeof(T));
    copy_to_device(uploads_.back().data(), values.data(), values.size() * sizeof(T), stream_.handle());
    return uploads_.back().template as<T>();
  }

  LatentShape shape_;
  Random random_;
  Stream stream_;
  DeviceBytes pool_;
  int next_page_ = 0;
  std::vector<float> norm_, frequencies_;
  std::vector<DeviceBytes> uploads_;  // alive during one run
};

LatentShape latent_shape(int heads, int rank, int rotary_dim, int rope_pairs, bool neighbors) {
  return {.heads = heads,
          .plain_dim = 16,
          .rotary_dim = rotary_dim,
          .rank = rank,
          .rope_pairs = rope_pairs,
          .neighbors = neighbors,
          .score_scale = 0.3F / std::sqrt(static_cast<float>(rank)),
          .norm_offset = 0,
          .norm_eps = 1e-5F,
          .offset = 64};
}

/// A tiny Kimi Linear, a tiny LongCat, one with odd sizes, and a large one.
std::vector<LatentShape> latent_shapes(KvType kv = KvType::kBF16) {
  std::vector<LatentShape> shapes = {latent_shape(4, 32, 8, 0, false), latent_shape(4, 32, 16, 8, true),
                                     latent_shape(35, 130, 14, 7, false),
                                     latent_shape(32, 512, 64, 32, true)};
  for (LatentShape& shape : shapes) shape.kv = kv;
  return shapes;
}
std::string name_of_shape(const testing::TestParamInfo<LatentShape>& info) {
  return "rank_" + std::to_string(info.param.rank) + "_turned_" + std::to_string(info.param.rotary_dim);
}

template <class Row>
class LatentTest : public testing::TestWithParam<LatentShape> {
 protected:
  void SetUp() override {
    if (list_devices().empty()) REPRISE_SKIP_WITHOUT("gpu", "no GPU");
    ASSERT_TRUE(latent_supports<Row>(GetParam()));
  }

  void compare_with_cpu() {
    LatentRig<Row> rig(GetParam(), 41);
    std::vector<LatentTokens> sequences;
    std::vector<LatentPiece> prompts;
    std::vector<LatentPiece> last;
    for (const int length : {2, 33, 65, 301}) sequences.push_back(rig.tokens(length));
    for (const LatentTokens& one : sequences) {
      prompts.push_back({&one, 0, one.length - 1});
      last.push_back({&one, one.length - 1, one.length});
    }
    const std::vector<Row> prefilled = rig.run(prompts, true);
    const std::vector<Row> decoded = rig.run(last, false);
    std::size_t row = 0;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      // Rounding of latents may differ from the CPU's by one step.
      const bool is_rounded = std::is_same_v<Row, float> && GetParam().kv == KvType::kBF16;
      const std::vector<float> wanted =
          rig.reference(sequences[i], is_rounded ? rig.stored(sequences[i]) : std::vector<std::byte>{});
      const auto edge = wanted.end() - static_cast<std::ptrdiff_t>(rig.width());
      EXPECT_TRUE(close(prefilled.data() + row * rig.width(), {wanted.begin(), edge}, rig.width()))
          << "prefill, length " << sequences[i].length;
      EXPECT_TRUE(close(decoded.data() + i * rig.width(), {edge, wanted.end()}, rig.width()))
          << "decode, length " << sequences[i].length;
      row += static_cast<std::size_t>(sequences[i].length) - 1;
    }
  }

  void compare_bits() {
    LatentRig<Row> rig(GetParam(), 42);
    const LatentTokens own = rig.tokens(302);
    const LatentTokens longer = rig.tokens(600);
    const LatentTokens shorter = rig.tokens(30);
    const std::vector<Row> whole = rig.run({{&own, 0, 301}}, true);
    const std::vector<Row> last = rig.run({{&own, 301, 302}}, false);
    const std::vector<std::byte> stored = rig.stored(own);
    rig.forget();
    std::vector<Row> sliced;
    for (const auto& [begin, end] : {std::pair{0, 64}, {64, 256}, {256, 301}}) {
      const std::vector<Row> part = rig.run({{&own, begin, end}}, true);
      sliced.insert(sliced.end(), part.begin(), part.end());
    }
    EXPECT_TRUE(same_bits(sliced, whole)) << "sliced";
    EXPECT_TRUE(same_bits(rig.run({{&own, 301, 302}}, false), last)) << "decoded after slices";
    EXPECT_EQ(rig.stored(own), stored);
    rig.forget();
    const std::vector<Row> batched = rig.run({{&shorter, 0, 29}, {&own, 0, 301}, {&longer, 0, 599}}, true);
    EXPECT_TRUE(same_bits(rows_of(batched, 29, 330, rig.width()), whole)) << "beside others";
    const std::vector<Row> decoded =
        rig.run({{&longer, 599, 600}, {&shorter, 29, 30}, {&own, 301, 302}}, false);
    EXPECT_TRUE(same_bits(rows_of(decoded, 2, 3, rig.width()), last)) << "decoded beside others";
    EXPECT_EQ(rig.stored(own), stored);
  }
};

class CudaLatent : public LatentTest<Bf16> {};
class CudaPreciseLatent : public LatentTest<float> {};

INSTANTIATE_TEST_SUITE_P(Shapes, CudaLatent, testing::ValuesIn(latent_shapes()), name_of_shape);
INSTANTIATE_TEST_SUITE_P(InF32, CudaPreciseLatent, testing::ValuesIn(latent_shapes(KvType::kF32)),
                         name_of_shape);
INSTANTIATE_TEST_SUITE_P(InBf16, CudaPreciseLatent, testing::ValuesIn(latent_shapes()), name_of_shape);

TEST_P(CudaLatent, IsThatOfTheCpu) {
  compare_with_cpu();
}
TEST_P(CudaPreciseLatent, IsThatOfTheCpu) {
  compare_with_cpu();
}

TEST_P(CudaLatent, BitsDependOnTheTokensAlone) {
  compare_bits();
}
TEST_P(CudaPreciseLatent, BitsDependOnTheTokensAlone) {
  compare_bits();
}

TEST_P(CudaPreciseLatent, DecodedRowsHaveTheBitsOfPrefilledOnes) {
  LatentRig<float> rig(GetParam(), 43);
  const LatentTokens own = rig.tokens(150);
  const std::vector<float> whole = rig.run({{&own, 0, own.length}}, true);
  const std::vector<std::byte> stored = rig.stored(own);
  rig.forget();
  std::vector<float> decoded;
  for (int row = 0; row < own.length; ++row) {
    const std::vector<float> one = rig.run({{&own, row, row + 1}}, false);
    decoded.insert(decoded.end(), one.begin(), one.end());
  }
  EXPECT_TRUE(same_bits(decoded, whole));
  EXPECT_EQ(rig.stored(own), stored);
}

TEST(CudaLatentShapes, WithoutAKernelAreRefused) {
  EXPECT_TRUE(latent_supports(latent_shape(64, 512, 64, 32, true)));
  EXPECT_FALSE(latent_supports(latent_shape(64, 1024, 64, 32, true)));
  EXPECT_FALSE(latent_supports(latent_shape(64, 512, 256, 32, true)));
  EXPECT_FALSE(latent_supports(latent_shape(64, 30, 9, 0, false)));
  EXPECT_FALSE(latent_supports(latent_shapes(KvType::kF32).front()));
  EXPECT_TRUE(latent_supports<float>(latent_shapes(KvType::kF32).front()));
}

}  // namespace
}  // namespace reprise::gpu::cuda::test
