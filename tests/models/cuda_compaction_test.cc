// Prompt compaction of whole models on a GPU: bitwise identical however the prompt was sliced and batched;
// keeps what the definition keeps; decoding continues with the original positions.

#include "gpu/state/kv_rows.h"
#include "tests/models/compaction.h"
#include "tests/models/cuda_fixture.h"
#include "tests/models/naive_kv_selection.h"
#include "tests/require.h"

namespace reprise::models {
namespace {

using gpu::Sequence;

constexpr KvBudget kNarrow{.tokens = 90, .window = 16, .sinks = 4};
constexpr KvBudget kWide{
    .tokens = 130, .window = 70, .sinks = 0, .pooling = KvBudget::Pooling::kMax, .pool_width = 7};

class CudaCompaction : public CudaModelTest {
 protected:
  static constexpr std::size_t kLength = test::CompactedRuns::kLength;
  static constexpr std::size_t kDecoded = test::CompactedRuns::kDecoded;

  void SetUp() override {
    CudaModelTest::SetUp();
    if (rig_ == nullptr) return;
    ASSERT_EQ(rig_->model().why_not_compacted(), "");
    runs_.emplace(*rig_);
  }

  std::vector<std::vector<std::byte>> pages_of(const Sequence& sequence) {
    std::vector<std::vector<std::byte>> pages;
    for (std::size_t i = 0; i < sequence.pages().size(); ++i) {
      pages.push_back(rig_->bytes_at(sequence.page_data(i), rig_->state().sizes().page_bytes));
    }
    return pages;
  }

  std::optional<test::CompactedRuns> runs_;
};

TEST_P(CudaCompaction, IsTheSameForEverySlicing) {
  static_assert(kLength > 3 * kGrid && kLength <= 4 * kGrid);
  for (const KvBudget& budget : {kNarrow, kWide}) {
    runs_->is_the_same_for_every_slicing(
        budget, {{64}, {128}, {64, 128}, {192}, {64, 192}, {128, 192}, {64, 128, 192}});
  }
}

TEST_P(CudaCompaction, GoesOnFromASnapshotThatLeavesTheWindow) {
  runs_->goes_on_from_a_snapshot_at(kNarrow, 2 * kGrid);
}

TEST_P(CudaCompaction, RememberingQueriesChangesNothing) {
  runs_->remembering_queries_changes_nothing(kWide);
}

TEST_P(CudaCompaction, IsSavedAndRestoredAsItIs) {
  runs_->is_saved_and_restored_as_it_is(kNarrow);
}

TEST_P(CudaCompaction, IsTheSameAmongStrangers) {
  const std::vector<std::byte> expected = rig_->state_of(runs_->compacted(kNarrow));
  Sequence ours = rig_->open(kLength);
  const auto ring = runs_->tail(kNarrow);
  const auto other_ring = runs_->tail(kWide);
  for (std::size_t done = 0; done < kLength;) {
    const std::size_t count = std::min(kLength - done, done == 0 ? kGrid : 2 * kGrid);
    Sequence first = rig_->open(100);
    Sequence second = rig_->open(150);
    const std::vector<TokenId> text = rig_->random_tokens(150, 9);
    const std::vector<Slice> batch = {
        {.sequence = &first, .tokens = std::span(text).first(100), .logits = Slice::Logits::kLast},
        {.sequence = &ours,
         .tokens = runs_->prompt().subspan(done, count),
         .logits = Slice::Logits::kNone,
         .tail = ring.get()},
        {.sequence = &second, .tokens = text, .logits = Slice::Logits::kNone, .tail = other_ring.get()}};
    rig_->model().forward(batch, Phase::kPrefill);
    done += count;
  }
  runs_->compact(ours, *ring, kNarrow);
  EXPECT_EQ(rig_->state_of(ours), expected);
}

// Computes the reference in double from the GPU's queries and keys.
TEST_P(CudaCompaction, KeepsWhatTheDefinitionKeeps) {
  const StateLayout& layout = rig_->model().state();
  const auto offset_in = [](const std::vector<StateLayout::Field>& fields, const std::string& name) {
    const auto found =
        std::find_if(fields.begin(), fields.end(), [&](const auto& field) { return field.name == name; });
    EXPECT_NE(found, fields.end()) << name;
    return found->offset;
  };
  const auto widen = [](const std::byte* from, std::size_t count, std::vector<float>& to) {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint16_t bits;
      std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
      to.push_back(std::bit_cast<float>(std::uint32_t{bits} << 16));
    }
  };
  const gpu::KvType kv = rig_->model().options().kv;
  const auto widen_key = [&](const std::byte* from, std::size_t count, std::vector<float>& to) {
    if (!gpu::is_quantized(kv)) return widen(from, count, to);
    to.resize(to.size() + count);
    gpu::load_quantized_row(kv, from, count, to.data() + to.size() - count);
  };
  Sequence sequence = rig_->open(kLength);
  const auto tail_of = runs_->tail(kNarrow);
  runs_->feed(sequence, tail_of.get(), 0, kLength);
  const std::vector<std::vector<std::byte>> before = pages_of(sequence);
  const std::vector<std::byte> ring = rig_->bytes_at(tail_of->rows(), layout.tail_bytes() * kNarrow.window);
  runs_->compact(sequence, *tail_of, kNarrow);
  const std::vector<std::vector<std::byte>> after = pages_of(sequence);
  std::size_t heads_that_differ = 0;
  std::size_t heads = 0;
  for (const AttentionSpec* spec : parts_of<AttentionSpec>(rig_->model().config().layers)) {
    const std::size_t row = gpu::kv_row_bytes(kv, spec->head_dim);
    const std::size_t k = offset_in(layout.per_token(), spec->name + ".k");
    const std::size_t v = offset_in(layout.per_token(), spec->name + ".v");
    const std::size_t q = offset_in(layout.tail(), spec->name + ".q");
    for (std::size_t head = 0; head < spec->kv_heads; ++head) {
      const auto at = [&](std::size_t part, std::size_t entry) {
        return part + (head * kGrid + entry % kGrid) * row;
      };
      test::NaiveHead naive{.dim = spec->head_dim,
                            .scale = spec->score_multiplier / std::sqrt(static_cast<double>(spec->head_dim))};
      for (std::size_t t = 0; t < kLength; ++t) {
        widen_key(before[t / kGrid].data() + at(k, t), spec->head_dim, naive.keys);
      }
      for (std::size_t g = 0; g < spec->group(); ++g) {
        naive.queries.emplace_back();
        for (std::size_t t = kLength - kNarrow.window; t < kLength; ++t) {
          const std::size_t of_head = (head * spec->group() + g) * spec->head_dim * sizeof(std::uint16_t);
          widen(ring.data() + t % kNarrow.window * layout.tail_bytes() + q + of_head, spec->head_dim,
                naive.queries.back());
        }
      }
      const auto scores = test::naive_scores(naive, kNarrow);
      const auto kept = test::naive_kept(scores, kLength, kNarrow);
      bool same = true;
      for (std::size_t i = 0; i < kept.size(); ++i) {
        for (const std::size_t part : {k, v}) {
          same = same && std::memcmp(after[i / kGrid].data() + at(part, i),
                                     before[kept[i] / kGrid].data() + at(part, kept[i]), row) == 0;
        }
      }
      ++heads;
      if (same) continue;
      // Allowed only if the scores of the last kept and the first dropped entry are nearly equal.
      ++heads_that_differ;
      std::vector<double> sorted(scores.begin() + kNarrow.sinks, scores.end());
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      const std::size_t last = kNarrow.tokens - kNarrow.fixed() - 1;
      EXPECT_LT(sorted[last] - sorted[last + 1], 1e-3 * sorted[last]) << spec->name << ", head " << head;
    }
  }
  EXPECT_LE(2 * heads_that_differ, heads);
}

// Batched with sequences that are not compacted.
TEST_P(CudaCompaction, DecodesTheSameInABatch) {
  Sequence alone = runs_->compacted(kNarrow);
  const std::vector<float> reference = rig_->decode(alone, runs_->reply());
  Sequence ours = runs_->compacted(kNarrow);
  Sequence long_one = rig_->open(kLength + kDecoded);
  runs_->feed(long_one, nullptr, 0, kLength);
  for (std::size_t step = 0; step < kDecoded; ++step) {
    const std::vector<Slice> batch = {{.sequence = &long_one, .tokens = runs_->prompt().subspan(step, 1)},
                                      {.sequence = &ours, .tokens = runs_->reply().subspan(step, 1)}};
    const std::span<const float> logits = rig_->model().forward(batch, Phase::kDecode);
    ASSERT_EQ(std::memcmp(logits.data() + rig_->vocab(), reference.data() + step * rig_->vocab(),
                          rig_->vocab() * sizeof(float)),
              0)
        << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CudaCompaction,
                         testing::Values("llama", "llama-int8", "llama-int4", "falcon_h1", "qwen3_5_text",
                                         "qwen3_5_text-int8", "builtin", "Q8_0"),
                         test_name);

TEST(CudaCompactionRefusals, ModelsThatCannotKeepFewerSayWhy) {
  if (gpu::list_devices().empty()) REPRISE_SKIP_WITHOUT("gpu", "no GPU");
  ModelRig windows(model_folder("recurrent_gemma"), "cuda:0", ComputeOptions{});
  EXPECT_NE(windows.model().why_not_compacted().find("no layer of attention"), std::string::npos);
}

}  // namespace
}  // namespace reprise::models
