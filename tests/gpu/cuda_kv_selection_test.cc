// KV selection on a GPU: recorded queries, scores and kept positions compared with the definition in double,
// gathered rows, and attention over them.
#include "gpu/cuda/attention/kv_selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "gpu/devices.h"
#include "tests/gpu/cuda_attention_rig.h"
#include "tests/models/naive_kv_selection.h"
#include "tests/require.h"

namespace reprise::gpu::cuda::test {
namespace {

using models::test::naive_kept;
using models::test::naive_scores;
using models::test::NaiveHead;
using Pooling = KvBudget::Pooling;

/// Data of one layer on host and GPU.
class MadePrompt {
 public:
  MadePrompt(const AttentionShape& shape, int tokens, const KvBudget& budget, std::uint64_t seed = 7)
      : shape_(shape), tokens_(tokens), budget_(budget), random_(seed) {
    const std::size_t count = pages_of(static_cast<std::size_t>(tokens));
    pages_.resize(count * page_bytes(shape), std::byte{0xff});
    for (std::size_t entry = 0; entry < static_cast<std::size_t>(tokens); ++entry) {
      for (std::size_t head = 0; head < static_cast<std::size_t>(shape.kv_heads); ++head) {
        for (const std::size_t part : {shape.k_offset, shape.v_offset}) store(at(part, head, entry));
      }
    }
    ring_bytes_ = kQueriesAt + static_cast<std::size_t>(shape.heads * shape.head_dim) * sizeof(Bf16) + 64;
    ring_ = floats_as_bf16(budget.window * ring_bytes_ / sizeof(Bf16), 2.0F);
    on_gpu_ = DeviceBytes(pages_.size());
    ring_on_gpu_ = DeviceBytes(ring_.size() * sizeof(Bf16));
    const std::size_t kept = pages_of(budget.tokens + 1);
    into_ = DeviceBytes(kept * page_bytes(shape));
    std::vector<std::byte*> pointers;
    for (std::size_t i = 0; i < count; ++i) pointers.push_back(on_gpu_.data() + i * page_bytes(shape));
    for (std::size_t i = 0; i < kept; ++i) pointers.push_back(into_.data() + i * page_bytes(shape));
    pointers_ = DeviceBytes(pointers.size() * sizeof pointers[0]);
    memory_ = DeviceBytes(CompactionSpace::bytes(shape, static_cast<std::size_t>(tokens), budget));
    copy_to_device(on_gpu_.data(), pages_.data(), on_gpu_.size(), stream());
    copy_to_device(ring_on_gpu_.data(), ring_.data(), ring_on_gpu_.size(), stream());
    copy_to_device(pointers_.data(), pointers.data(), pointers_.size(), stream());
    fill(into_.data(), 0xff, into_.size(), stream());
    fill(memory_.data(), 0xff, memory_.size(), stream());
    prompt_ = {.shape = shape,
               .queries = kQueriesAt,
               .pages = pointers_.as<std::byte*>(),
               .into = pointers_.as<std::byte*>() + count,
               .tokens = tokens,
               .scored = tokens - static_cast<int>(budget.window),
               .ring = {.rows = ring_on_gpu_.data(),
                        .window = static_cast<std::int32_t>(budget.window),
                        .row_bytes = static_cast<std::int32_t>(ring_bytes_)},
               .budget = budget};
    space_ = CompactionSpace::of(shape, static_cast<std::size_t>(tokens), budget, memory_.data());
  }

  StreamHandle stream() const { return stream_.handle(); }
  const PromptOfLayer& prompt() const { return prompt_; }
  const CompactionSpace& space() const { return space_; }
  Random& random() { return random_; }
  std::size_t scored() const { return static_cast<std::size_t>(prompt_.scored); }

  std::vector<float> scores() {
    return fetch<float>(space_.scores, static_cast<std::size_t>(shape_.kv_heads) * scored());
  }
  void give_scores(const std::vector<float>& scores) {
    copy_to_device(reinterpret_cast<std::byte*>(space_.scores), scores.data(), scores.size() * sizeof(float),
                   stream());
  }
  std::vector<std::uint32_t> kept(std::size_t kv_head) {
    const auto all =
        fetch<std::uint32_t>(space_.kept, static_cast<std::size_t>(shape_.kv_heads) * budget_.tokens);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(kv_head * budget_.tokens);
    return {first, first + static_cast<std::ptrdiff_t>(budget_.tokens)};
  }
  std::vector<std::byte> gathered() { return fetch<std::byte>(into_.as<std::byte>(), into_.size()); }
  std::byte* into(std::size_t page) const { return into_.data() + page * page_bytes(shape_); }

  std::size_t row_bytes() const { return test::row_bytes(shape_); }
  /// Byte offset of a row in consecutive pages.
  std::size_t at(std::size_t part, std::size_t head, std::size_t entry) const {
    return entry / kGrid * page_bytes(shape_) + part + (head * kGrid + entry % kGrid) * row_bytes();
  }
  std::vector<float> row(std::size_t part, std::size_t head, std::size_t entry) const {
    const std::byte* from = bytes_of(part, head, entry);
    if (!is_quantized(shape_.kv)) return widened(reinterpret_cast<const Bf16*>(from));
    std::vector<float> out(static_cast<std::size_t>(shape_.head_dim));
    load_quantized_row(shape_.kv, from, out.size(), out.data());
    return out;
  }
  const std::byte* bytes_of(std::size_t part, std::size_t head, std::size_t entry) const {
    return pages_.data() + at(part, head, entry);
  }

  NaiveHead naive(std::size_t kv_head) const {
    NaiveHead head{.dim = static_cast<std::size_t>(shape_.head_dim),
                   .scale = shape_.score_multiplier / std::sqrt(static_cast<double>(shape_.head_dim))};
    for (std::size_t t = 0; t < static_cast<std::size_t>(tokens_); ++t) {
      const std::vector<float> key = row(shape_.k_offset, kv_head, t);
      head.keys.insert(head.keys.end(), key.begin(), key.end());
    }
    const auto group = static_cast<std::size_t>(shape_.group());
    for (std::size_t g = 0; g < group; ++g) {
      head.queries.emplace_back();
      for (std::size_t t = scored(); t < static_cast<std::size_t>(tokens_); ++t) {
        const std::size_t at =
            t % budget_.window * ring_bytes_ + kQueriesAt + (kv_head * group + g) * query_bytes();
        const std::vector<float> q = widened(ring_.data() + at / sizeof(Bf16));
        head.queries.back().insert(head.queries.back().end(), q.begin(), q.end());
      }
    }
    return head;
  }
  void spoil_key(std::size_t head, std::size_t entry, Bf16 bits) {
    copy_to_device(on_gpu_.data() + at(shape_.k_offset, head, entry), &bits, sizeof bits, stream());
  }

 private:
  static constexpr std::size_t kQueriesAt = 128;

  std::size_t query_bytes() const { return static_cast<std::size_t>(shape_.head_dim) * sizeof(Bf16); }
  void store(std::size_t byte) {
    const std::vector<float> values = random_.floats(static_cast<std::size_t>(shape_.head_dim));
    if (is_quantized(shape_.kv)) {
      store_quantized_row(shape_.kv, values.data(), values.size(), pages_.data() + byte);
    } else {
      gpu::test::plain().to_bf16(values.data(), reinterpret_cast<Bf16*>(pages_.data() + byte), values.size());
    }
  }

  static std::size_t pages_of(std::size_t tokens) { return (tokens + kGrid - 1) / kGrid; }
  std::vector<Bf16> floats_as_bf16(std::size_t count, float scale = 1.0F) {
    const std::vector<float> values = random_.floats(count, scale);
    std::vector<Bf16> out(count);
    gpu::test::plain().to_bf16(values.data(), out.data(), count);
    return out;
  }
  std::vector<float> widened(const Bf16* from) const {
    std::vector<float> out;
    for (int i = 0; i < shape_.head_dim; ++i) out.push_back(gpu::test::from_bf16(from[i]));
    return out;
  }
  template <class T>
  std::vector<T> fetch(const T* from, std::size_t count) {
    std::vector<T> out(count);
    copy_to_host(out.data(), reinterpret_cast<const std::byte*>(from), count * sizeof(T), stream());
    stream_.wait();
    return out;
  }

  AttentionShape shape_;
  int tokens_;
  KvBudget budget_;
  Random random_;
  Stream stream_;
  std::size_t ring_bytes_ = 0;
  std::vector<std::byte> pages_;
  std::vector<Bf16> ring_;
  DeviceBytes on_gpu_, ring_on_gpu_, into_, pointers_, memory_;
  PromptOfLayer prompt_{};
  CompactionSpace space_{};
};

class CudaKvSelection : public testing::Test {
 protected:
  void SetUp() override {
    if (list_devices().empty()) REPRISE_SKIP_WITHOUT("gpu", "no GPU");
  }
};

struct SelectionCase {
  AttentionShape shape;
  int tokens;
  KvBudget budget;
};

std::vector<SelectionCase> selection_cases() {
  const std::vector<AttentionShape> shapes = all_shapes();
  return {
      {shapes[0], 300, {.tokens = 90, .window = 16, .sinks = 4}},
      {shapes[1], 513, {.tokens = 512, .window = 1, .sinks = 0}},
      {shapes[2], 200, {.tokens = 128, .window = 70, .pooling = Pooling::kMax, .pool_width = 7}},
      {shapes[3], 129, {.tokens = 36, .window = 32, .sinks = 4}},
      {shapes[4], 700, {.tokens = 200, .window = 33, .sinks = 0, .pool_width = 63}},
      {shapes[0], 65, {.tokens = 64, .window = 63, .sinks = 1, .pooling = Pooling::kMax, .pool_width = 1}},
      {kept_as(KvType::kInt8, shapes[2]), 300, {.tokens = 90, .window = 16, .sinks = 4}},
      {kept_as(KvType::kInt4, shapes[2]), 300, {.tokens = 90, .window = 40, .sinks = 4}},
      {kept_as(KvType::kInt8, shapes[4]), 200, {.tokens = 90, .window = 16, .sinks = 0}},
      {kept_as(KvType::kInt4, shapes[0]), 200, {.tokens = 90, .window = 16, .sinks = 2}}};
}

/// Allowed error.
double slack(double score) {
  return 1e-6 + 2e-4 * std::abs(score);
}

TEST_F(CudaKvSelection, ScoresAndPlacesAreThoseOfTheDefinition) {
  for (const SelectionCase& one : selection_cases()) {
    SCOPED_TRACE(std::to_string(one.tokens) + " tokens of " + testing::PrintToString(one.shape));
    MadePrompt made(one.shape, one.tokens, one.budget);
    score_entries(made.prompt(), made.space(), made.stream());
    choose_entries(made.prompt(), made.space(), made.stream());
    const std::vector<float> all = made.scores();
    const auto tokens = static_cast<std::uint32_t>(one.tokens);
    for (std::size_t head = 0; head < static_cast<std::size_t>(one.shape.kv_heads); ++head) {
      const std::vector<double> expected = naive_scores(made.naive(head), one.budget);
      const float* scores = all.data() + head * made.scored();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(scores[i], expected[i], slack(expected[i])) << "place " << i << " of head " << head;
      }
      const std::vector<std::uint32_t> kept = made.kept(head);
      EXPECT_EQ(kept, naive_kept({scores, scores + made.scored()}, tokens, one.budget))
          << "by its own scores";
      // Other positions than the definition's only where scores are nearly equal.
      const std::vector<std::uint32_t> wanted = naive_kept(expected, tokens, one.budget);
      std::vector<std::uint32_t> differing;
      std::set_symmetric_difference(kept.begin(), kept.end(), wanted.begin(), wanted.end(),
                                    std::back_inserter(differing));
      double least = std::numeric_limits<double>::infinity();
      for (const std::uint32_t entry : wanted) {
        if (entry >= one.budget.sinks && entry < expected.size()) least = std::min(least, expected[entry]);
      }
      for (const std::uint32_t entry : differing) EXPECT_NEAR(expected[entry], least, 2 * slack(least));
      EXPECT_LE(differing.size(), 2U);
    }
  }
}

TEST_F(CudaKvSelection, TheSameTwice) {
  const SelectionCase one = selection_cases()[4];
  MadePrompt first(one.shape, one.tokens, one.budget);
  MadePrompt second(one.shape, one.tokens, one.budget);
  for (MadePrompt* made : {&first, &second}) score_entries(made->prompt(), made->space(), made->stream());
  EXPECT_TRUE(gpu::test::same_bits(first.scores(), second.scores()));
}

// Given scores: ties, NaN, all magnitudes.
TEST_F(CudaKvSelection, OfEqualScoresTheLowerPlace) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const AttentionShape shape = all_shapes()[0];
  for (const std::uint32_t budget : {36U, 37U, 100U, 600U, 1299U}) {
    for (int kind = 0; kind < 6; ++kind) {
      SCOPED_TRACE(std::to_string(budget) + " kept, scores of kind " + std::to_string(kind));
      const KvBudget wish{.tokens = budget};
      MadePrompt made(shape, 1300, wish);
      std::vector<float> scores(2 * made.scored());
      for (float& score : scores) {
        const auto drawn = static_cast<float>(made.random().size(0, 9));
        const float kinds[] = {0.5F,
                               drawn,
                               drawn < 5 ? -0.0F : 0.0F,
                               drawn < 9 ? kNan : 1.0F,
                               drawn == 0 ? kInfinity : -drawn,
                               made.random().odd_floats(1)[0]};
        score = kinds[kind];
      }
      made.give_scores(scores);
      choose_entries(made.prompt(), made.space(), made.stream());
      for (std::size_t head = 0; head < 2; ++head) {
        std::vector<double> own;
        for (std::size_t i = 0; i < made.scored(); ++i) {
          const float score = scores[head * made.scored() + i];
          own.push_back(std::isnan(score) ? -std::numeric_limits<double>::infinity() : score);
        }
        EXPECT_EQ(made.kept(head), naive_kept(own, 1300, wish));
      }
    }
  }
}

// A head whose keys contain NaN still keeps positions, and other heads are not affected.
TEST_F(CudaKvSelection, WhatIsNotANumberStaysInItsHead) {
  const SelectionCase one = selection_cases()[0];
  MadePrompt good(one.shape, one.tokens, one.budget);
  MadePrompt spoilt(one.shape, one.tokens, one.budget);
  spoilt.spoil_key(1, 100, 0x7fc0);
  for (MadePrompt* made : {&good, &spoilt}) {
    score_entries(made->prompt(), made->space(), made->stream());
    choose_entries(made->prompt(), made->space(), made->stream());
  }
  EXPECT_EQ(spoilt.kept(0), good.kept(0));
  const std::vector<double> lowest(spoilt.scored(), 0);
  EXPECT_EQ(spoilt.kept(1), naive_kept(lowest, static_cast<std::uint32_t>(one.tokens), one.budget));
}

TEST_F(CudaKvSelection, GatherCopiesChosenRowsAndNothingElse) {
  for (const SelectionCase& one : selection_cases()) {
    MadePrompt made(one.shape, one.tokens, one.budget);
    score_entries(made.prompt(), made.space(), made.stream());
    choose_entries(made.prompt(), made.space(), made.stream());
    gather_entries(made.prompt(), made.space(), made.stream());
    std::vector<std::byte> expected(made.gathered().size(), std::byte{0xff});
    for (std::size_t head = 0; head < static_cast<std::size_t>(one.shape.kv_heads); ++head) {
      const std::vector<std::uint32_t> kept = made.kept(head);
      for (std::size_t to = 0; to < kept.size(); ++to) {
        for (const std::size_t part : {one.shape.k_offset, one.shape.v_offset}) {
          std::memcpy(expected.data() + made.at(part, head, to), made.bytes_of(part, head, kept[to]),
                      made.row_bytes());
        }
      }
    }
    EXPECT_TRUE(made.gathered() == expected) << testing::PrintToString(one.shape);
  }
}

// Decoding after compaction compared with attention over the kept rows and the new one, in double.
TEST_F(CudaKvSelection, AttentionAfterItIsOverWhatWasKept) {
  const KvBudget budget{.tokens = 330, .window = 32, .sinks = 4};
  const AttentionShape shape = shape_of(6, 2, 64, 0, false, false);
  MadePrompt made(shape, 900, budget);
  score_entries(made.prompt(), made.space(), made.stream());
  choose_entries(made.prompt(), made.space(), made.stream());
  gather_entries(made.prompt(), made.space(), made.stream());
  const int stride = shape.q_width() + 2 * shape.kv_heads * shape.head_dim;
  const std::vector<float> row = made.random().floats(static_cast<std::size_t>(stride));
  std::vector<Bf16> projected(row.size());
  gpu::test::plain().to_bf16(row.data(), projected.data(), row.size());
  std::vector<DeviceBytes> uploads;
  const auto upload = [&](const auto& values) {
    uploads.emplace_back(values.size() * sizeof values[0]);
    copy_to_device(uploads.back().data(), values.data(), uploads.back().size(), made.stream());
    return uploads.back().data();
  };
  const std::vector<BatchSlice> slices = {{.first_row = 0,
                                           .rows = 1,
                                           .stored = static_cast<std::int32_t>(budget.tokens),
                                           .slot = nullptr,
                                           .pages = made.prompt().into}};
  const Batch batch{
      .slices = reinterpret_cast<const BatchSlice*>(upload(slices)),
      .tiles = nullptr,
      .row_slice = reinterpret_cast<const std::int32_t*>(upload(std::vector<std::int32_t>{0})),
      .tokens = nullptr,
      .positions = reinterpret_cast<const std::int32_t*>(upload(std::vector<std::int32_t>{900})),
      .slice_count = 1,
      .tile_count = 0,
      .rows = 1,
      .longest = 1024};
  const auto width = static_cast<std::size_t>(shape.heads * shape.head_dim);
  const DeviceBytes out(width * sizeof(Bf16));
  const DeviceBytes workspace(attention_workspace(shape, 1, 0, batch.longest));
  const AttentionPass<Bf16> pass{.projected = reinterpret_cast<const Bf16*>(upload(projected)),
                                 .stride = stride,
                                 .q_norm = nullptr,
                                 .k_norm = nullptr,
                                 .rope_cos = nullptr,
                                 .rope_sin = nullptr,
                                 .out = out.as<Bf16>(),
                                 .workspace = workspace.data()};
  attention_decode(shape, batch, pass, made.stream());
  std::vector<Bf16> mixed(width);
  copy_to_host(mixed.data(), out.data(), out.size(), made.stream());
  made.gathered();  // synchronizes
  const auto size = static_cast<std::size_t>(shape.head_dim);
  const auto given = [&](std::size_t first, std::size_t d) {
    return gpu::test::from_bf16(projected[first + d]);
  };
  for (std::size_t head = 0; head < static_cast<std::size_t>(shape.heads); ++head) {
    const std::size_t kv_head = head / static_cast<std::size_t>(shape.group());
    const std::vector<std::uint32_t> kept = made.kept(kv_head);
    std::vector<double> expected(size, 0);
    double total = 0;
    for (std::size_t i = 0; i <= kept.size(); ++i) {
      std::vector<float> key(size), value(size);
      if (i < kept.size()) {
        key = made.row(shape.k_offset, kv_head, kept[i]);
        value = made.row(shape.v_offset, kv_head, kept[i]);
      } else {
        for (std::size_t d = 0; d < size; ++d) {
          key[d] = given(width + kv_head * size, d);
          value[d] = given(width + (2 + kv_head) * size, d);
        }
      }
      double dot = 0;
      for (std::size_t d = 0; d < size; ++d) dot += static_cast<double>(given(head * size, d)) * key[d];
      const double weight = std::exp(dot / std::sqrt(static_cast<double>(size)));
      total += weight;
      for (std::size_t d = 0; d < size; ++d) expected[d] += weight * value[d];
    }
    for (std::size_t d = 0; d < size; ++d) {
      EXPECT_NEAR(gpu::test::from_bf16(mixed[head * size + d]), expected[d] / total, 0.01);
    }
  }
}

/// Prompts are cut anywhere on the grid, several per batch; a token's row depends on its position only.
TEST_F(CudaKvSelection, QueriesOfTheLastTokensAreRemembered) {
  // bytes before the layer's part of a row, and at least as many after it
  constexpr std::int32_t kPadding = 100;
  const AttentionShape shape = all_shapes()[1];
  const auto width = static_cast<std::size_t>(shape.heads * shape.head_dim);
  const auto row_bytes = static_cast<std::int32_t>((width * sizeof(Bf16) + 2 * kPadding + 63) / 64 * 64);
  struct Cut {
    std::int32_t first;
    std::int32_t rows;
    std::int32_t window;  // 0: queries are not recorded
  };
  const std::vector<Cut> cuts = {{128, 5, 16}, {0, 64, 0}, {64, 200, 70}, {0, 30, 30}, {192, 64, 1}};
  Random random(4);
  Stream stream;
  std::vector<BatchSlice> slices;
  std::vector<QueryRing> rings;
  std::vector<std::int32_t> row_slice, positions;
  std::vector<DeviceBytes> memory;
  for (const Cut& cut : cuts) {
    slices.push_back({.first_row = static_cast<std::int32_t>(row_slice.size()),
                      .rows = cut.rows,
                      .stored = cut.first,
                      .slot = nullptr,
                      .pages = nullptr});
    for (std::int32_t i = 0; i < cut.rows; ++i) {
      row_slice.push_back(static_cast<std::int32_t>(rings.size()));
      positions.push_back(cut.first + i);
    }
    memory.emplace_back(static_cast<std::size_t>(std::max(cut.window, 1) * row_bytes));
    fill(memory.back().data(), 0xee, memory.back().size(), stream.handle());
    rings.push_back({.rows = cut.window == 0 ? nullptr : memory.back().data(),
                     .window = cut.window,
                     .row_bytes = cut.window == 0 ? 0 : row_bytes});
  }
  row_slice.resize(row_slice.size() + 7, kNoSlice);
  positions.resize(row_slice.size(), 0);
  const std::vector<float> values = random.floats(row_slice.size() * width);
  std::vector<Bf16> q(values.size());
  gpu::test::plain().to_bf16(values.data(), q.data(), q.size());
  std::vector<DeviceBytes> uploads;
  const auto upload = [&](const auto& from) {
    uploads.emplace_back(from.size() * sizeof from[0]);
    copy_to_device(uploads.back().data(), from.data(), uploads.back().size(), stream.handle());
    return uploads.back().data();
  };
  const Batch batch{.slices = reinterpret_cast<const BatchSlice*>(upload(slices)),
                    .tiles = nullptr,
                    .row_slice = reinterpret_cast<const std::int32_t*>(upload(row_slice)),
                    .tokens = nullptr,
                    .positions = reinterpret_cast<const std::int32_t*>(upload(positions)),
                    .slice_count = static_cast<int>(slices.size()),
                    .tile_count = 0,
                    .rows = static_cast<int>(row_slice.size()),
                    .longest = 1024};
  AttentionPass<Bf16> pass{};
  pass.workspace = upload(q);
  constexpr std::size_t kOffset = 112;
  remember_queries(shape, batch, pass, reinterpret_cast<const QueryRing*>(upload(rings)), kOffset,
                   stream.handle());
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    std::vector<std::byte> expected(memory[i].size(), std::byte{0xee});
    for (std::int32_t row = std::max(0, cuts[i].rows - cuts[i].window);
         row < cuts[i].rows && cuts[i].window > 0; ++row) {
      const auto at = static_cast<std::size_t>((cuts[i].first + row) % cuts[i].window * row_bytes) + kOffset;
      std::memcpy(expected.data() + at,
                  q.data() + static_cast<std::size_t>(slices[i].first_row + row) * width,
                  width * sizeof(Bf16));
    }
    std::vector<std::byte> ring(memory[i].size());
    copy_to_host(ring.data(), memory[i].data(), ring.size(), stream.handle());
    stream.wait();
    EXPECT_TRUE(ring == expected) << "slice " << i;
  }
}

}  // namespace
}  // namespace reprise::gpu::cuda::test
