// Latent attention on a GPU against the CPU's kernels, as a model composes them, and against itself where bits must not
// change. Without a GPU all of it is skipped.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "gpu/cuda/latent_attention.h"
#include "gpu/devices.h"
#include "tests/gpu/cuda_attention_rig.h"

namespace reprise::gpu::cuda::test {
namespace {

using gpu::test::from_bf16;
using gpu::test::plain;
using gpu::test::same_bits;

/// Inputs of one sequence.
struct LatentTokens {
  int length;
  std::vector<Bf16> queries;   // [length, heads, plain_dim + turned_dim]
  std::vector<Bf16> compared;  // [length, heads, rank]
  std::vector<float> made;     // [length, rank + turned_dim]
  std::vector<int> pages;      // in the rig's pool
};

struct LatentPiece {
  const LatentTokens* tokens;
  int begin;
  int end;
};

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
                     .queries = halves(size(length * shape_.heads * (shape_.plain_dim + shape_.turned_dim))),
                     .compared = halves(size(length * shape_.heads * shape_.rank)),
                     .made = random_.floats(size(length * shape_.stored())),
                     .pages = {}};
    for (int page = 0; page * kGrid < length; ++page) out.pages.push_back(next_page_++);
    EXPECT_LE(next_page_, static_cast<int>(kPagesInAll));
    return out;
  }

  /// The output of all pieces, one after another: [rows, heads * rank].
  std::vector<Bf16> run(const std::vector<LatentPiece>& pieces, bool is_prefill) {
    std::vector<BatchSlice> slices;
    std::vector<BatchTile> tiles;
    std::vector<std::int32_t> row_slice, positions;
    std::vector<Bf16> queries, compared;
    std::vector<float> made;
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
      append(queries, piece.tokens->queries, size(shape_.heads * (shape_.plain_dim + shape_.turned_dim)));
      append(made, piece.tokens->made, size(shape_.stored()));
      for (int row = piece.begin; row < piece.end; ++row) {
        row_slice.push_back(index);
        positions.push_back(row);
        for (std::size_t head = 0; head < size(shape_.heads); ++head) {
          const Bf16* from = piece.tokens->compared.data() + (size(row * shape_.heads) + head) * rank;
          compared.insert(compared.end(), from, from + rank);
          compared.insert(compared.end(), dim - rank, Bf16{0xffff});
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
    std::vector<Bf16> out(size(rows) * width());
    Bf16* on_out = upload(out);
    std::vector<std::byte> workspace(latent_workspace(shape_, rows, batch.tile_count, longest));
    latent_attention(shape_, batch,
                     {.queries = upload(queries),
                      .query_stride = shape_.heads * (shape_.plain_dim + shape_.turned_dim),
                      .made = upload(made),
                      .made_stride = shape_.stored(),
                      .norm = upload(norm_),
                      .rope_cos = cosine,
                      .rope_sin = sine,
                      .compared = upload(compared),
                      .out = on_out,
                      .workspace = upload(workspace)},
                     stream_.handle());
    copy_to_host(out.data(), reinterpret_cast<const std::byte*>(on_out), out.size() * sizeof(Bf16),
                 stream_.handle());
    stream_.wait();
    uploads_.clear();
    return out;
  }

  /// The same of rows [begin, length) of a sequence by the CPU's kernels.
  std::vector<float> reference(const LatentTokens& tokens, int begin) const {
    const auto rank = size(shape_.rank);
    const auto stored = size(shape_.stored());
    const auto turned = size(shape_.turned_dim);
    std::vector<std::vector<Bf16>> pages(tokens.pages.size(), std::vector<Bf16>(kGrid * stored));
    std::vector<const std::byte*> pointers;
    for (const auto& page : pages) pointers.push_back(reinterpret_cast<const std::byte*>(page.data()));
    std::vector<float> all;
    for (std::size_t row = 0; row < size(tokens.length); ++row) {
      std::vector<float> latent(tokens.made.begin() + static_cast<std::ptrdiff_t>(row * stored),
                                tokens.made.begin() + static_cast<std::ptrdiff_t>((row + 1) * stored));
      plain().rms_norm(latent.data(), norm_.data(), shape_.norm_offset, shape_.norm_eps, latent.data(), 1,
                       rank, rank);
      turn(latent.data() + rank, row);
      plain().to_bf16(latent.data(), pages[row / kGrid].data() + row % kGrid * stored, stored);
      if (row < size(begin)) continue;
      std::vector<float> q;
      for (std::size_t head = 0; head < size(shape_.heads); ++head) {
        const std::size_t at = row * size(shape_.heads) + head;
        for (std::size_t i = 0; i < rank; ++i) q.push_back(from_bf16(tokens.compared[at * rank + i]));
        const Bf16* query =
            tokens.queries.data() + at * size(shape_.plain_dim + shape_.turned_dim) + shape_.plain_dim;
        std::vector<float> of_query;
        for (std::size_t i = 0; i < turned; ++i) of_query.push_back(from_bf16(query[i]));
        turn(of_query.data(), row);
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
                         .kv = KvType::kBF16});
      all.insert(all.end(), out.begin(), out.end());
    }
    return all;
  }

  /// What the pages of a sequence hold of its tokens.
  std::vector<std::byte> stored(const LatentTokens& tokens) {
    std::vector<std::byte> pool(pool_.size());
    copy_to_host(pool.data(), pool_.data(), pool.size(), stream_.handle());
    stream_.wait();
    std::vector<std::byte> out;
    const std::size_t token = size(shape_.stored()) * sizeof(Bf16);
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
  std::size_t page_bytes() const { return shape_.offset + size(kGrid * shape_.stored()) * sizeof(Bf16); }
  std::vector<Bf16> halves(std::size_t count) {
    std::vector<Bf16> out(count);
    plain().to_bf16(random_.floats(count).data(), out.data(), count);
    return out;
  }
  /// As models/cpu/mla.cc does it.
  void turn(float* x, std::size_t position) const {
    if (frequencies_.empty()) return;
    if (shape_.neighbours) {
      const std::size_t half = size(shape_.turned_dim) / 2;
      std::vector<float> apart(size(shape_.turned_dim));
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
  std::vector<DeviceBytes> uploads_;  // of one run
};

LatentShape latent_shape(int heads, int rank, int turned_dim, int rope_pairs, bool neighbours) {
  return {.heads = heads,
          .plain_dim = 16,
          .turned_dim = turned_dim,
          .rank = rank,
          .rope_pairs = rope_pairs,
          .neighbours = neighbours,
          .score_scale = 0.3F / std::sqrt(static_cast<float>(rank)),
          .norm_offset = 0,
          .norm_eps = 1e-5F,
          .offset = 64};
}

class CudaLatent : public testing::TestWithParam<LatentShape> {
 protected:
  void SetUp() override {
    if (list_devices().empty()) GTEST_SKIP() << "no GPU";
    ASSERT_TRUE(latent_supports(GetParam()));
  }
};

INSTANTIATE_TEST_SUITE_P(Shapes, CudaLatent,
                         testing::Values(latent_shape(4, 32, 8, 0, false),     // a tiny Kimi Linear
                                         latent_shape(4, 32, 16, 8, true),     // a tiny LongCat
                                         latent_shape(35, 130, 14, 7, false),  // nothing is a multiple
                                         latent_shape(32, 512, 64, 32, true)),
                         [](const auto& info) {
                           return "rank_" + std::to_string(info.param.rank) + "_turned_" +
                                  std::to_string(info.param.turned_dim);
                         });

TEST_P(CudaLatent, IsThatOfTheCpu) {
  LatentRig rig(GetParam(), 41);
  std::vector<LatentTokens> sequences;
  std::vector<LatentPiece> prompts;
  std::vector<LatentPiece> last;
  for (const int length : {2, 33, 65, 301}) sequences.push_back(rig.tokens(length));
  for (const LatentTokens& one : sequences) {
    prompts.push_back({&one, 0, one.length - 1});
    last.push_back({&one, one.length - 1, one.length});
  }
  const std::vector<Bf16> prefilled = rig.run(prompts, true);
  const std::vector<Bf16> decoded = rig.run(last, false);
  std::size_t row = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const std::vector<float> wanted = rig.reference(sequences[i], 0);
    const auto edge = wanted.end() - static_cast<std::ptrdiff_t>(rig.width());
    EXPECT_TRUE(close(prefilled.data() + row * rig.width(), {wanted.begin(), edge}, rig.width()))
        << "prefill, length " << sequences[i].length;
    EXPECT_TRUE(close(decoded.data() + i * rig.width(), {edge, wanted.end()}, rig.width()))
        << "decode, length " << sequences[i].length;
    row += static_cast<std::size_t>(sequences[i].length) - 1;
  }
}

TEST_P(CudaLatent, BitsDependOnTheTokensAlone) {
  LatentRig rig(GetParam(), 42);
  const LatentTokens own = rig.tokens(302);
  const LatentTokens longer = rig.tokens(600);
  const LatentTokens shorter = rig.tokens(30);
  const std::vector<Bf16> whole = rig.run({{&own, 0, 301}}, true);
  const std::vector<Bf16> last = rig.run({{&own, 301, 302}}, false);
  const std::vector<std::byte> stored = rig.stored(own);
  rig.forget();
  std::vector<Bf16> sliced;
  for (const auto& [begin, end] : {std::pair{0, 64}, {64, 256}, {256, 301}}) {
    const std::vector<Bf16> part = rig.run({{&own, begin, end}}, true);
    sliced.insert(sliced.end(), part.begin(), part.end());
  }
  EXPECT_TRUE(same_bits(sliced, whole)) << "sliced";
  EXPECT_TRUE(same_bits(rig.run({{&own, 301, 302}}, false), last)) << "decoded after slices";
  EXPECT_EQ(rig.stored(own), stored);
  rig.forget();
  const std::vector<Bf16> beside = rig.run({{&shorter, 0, 29}, {&own, 0, 301}, {&longer, 0, 599}}, true);
  EXPECT_TRUE(same_bits(rows_of(beside, 29, 330, rig.width()), whole)) << "beside others";
  const std::vector<Bf16> decoded =
      rig.run({{&longer, 599, 600}, {&shorter, 29, 30}, {&own, 301, 302}}, false);
  EXPECT_TRUE(same_bits(rows_of(decoded, 2, 3, rig.width()), last)) << "decoded beside others";
  EXPECT_EQ(rig.stored(own), stored);
}

TEST(CudaLatentShapes, WithoutAKernelAreRefused) {
  EXPECT_TRUE(latent_supports(latent_shape(64, 512, 64, 32, true)));
  EXPECT_FALSE(latent_supports(latent_shape(64, 1024, 64, 32, true)));
  EXPECT_FALSE(latent_supports(latent_shape(64, 512, 256, 32, true)));
  EXPECT_FALSE(latent_supports(latent_shape(64, 30, 9, 0, false)));
}

}  // namespace
}  // namespace reprise::gpu::cuda::test
