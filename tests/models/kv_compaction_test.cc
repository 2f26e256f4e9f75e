// Prompt compaction on the CPU: independent of slicing, keeps what the definition keeps, and decoding attends
// to what was kept.

#include "models/cpu/kv_compaction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "gpu/kernels.h"
#include "gpu/state/kv_rows.h"
#include "tests/models/compaction.h"
#include "tests/models/family_runs.h"
#include "tests/models/naive_kv_selection.h"

namespace reprise::models {
namespace {

using gpu::kPageTokens;
using gpu::KvType;
using test::FamilyRuns;
using test::FamilySetting;

constexpr KvBudget kSmall{.tokens = 90, .window = 16, .sinks = 4};

// -- one layer, with keys, values and queries made here

struct MadeLayer {
  static constexpr std::size_t kTokens = 300, kHeads = 4, kKvHeads = 2, kDim = 40;
  static constexpr std::size_t kPages = (kTokens + kPageTokens - 1) / kPageTokens;

  MadeLayer(KvType type, const KvBudget& budget) : kv(type), row(gpu::kv_row_bytes(type, kDim)), random(3) {
    layer = {.heads = kHeads,
             .kv_heads = kKvHeads,
             .head_dim = kDim,
             .scale = 0.2F,
             .kv = kv,
             .k = 0,
             .v = kKvHeads * kPageTokens * row,
             .queries = 64};
    pages = make_pages(kPages);
    for (std::size_t t = 0; t < kTokens; ++t) {
      for (std::size_t head = 0; head < kKvHeads; ++head) {
        store(pages, layer.k, head, t);
        store(pages, layer.v, head, t);
      }
    }
    tail = PromptTail::make(64 + kHeads * kDim * sizeof(float), budget.window);
    for (std::size_t t = kTokens - budget.window; t < kTokens; ++t) {
      for (std::size_t i = 0; i < kHeads * kDim; ++i) tail->row(t, layer.queries)[i] = 3 * normal(random);
    }
    tail->note(0, kTokens);
    kept_pages = make_pages((budget.tokens + 1 + kPageTokens - 1) / kPageTokens);
    for (auto& page : pages) from.push_back(page.data());
    for (auto& page : kept_pages) into.push_back(page.data());
  }

  using Pages = std::vector<std::vector<std::byte>>;
  Pages make_pages(std::size_t count) const {
    return Pages(count, std::vector<std::byte>(2 * kKvHeads * kPageTokens * row));
  }
  std::size_t at(std::size_t part, std::size_t head, std::size_t entry) const {
    return part + (head * kPageTokens + entry % kPageTokens) * row;
  }
  void store(Pages& to, std::size_t part, std::size_t head, std::size_t entry) {
    float values[kDim];
    for (float& value : values) value = normal(random);
    std::byte* target = to[entry / kPageTokens].data() + at(part, head, entry);
    if (kv == KvType::kF32) {
      std::memcpy(target, values, sizeof values);
    } else if (kv == KvType::kBF16) {
      gpu::cpu_kernels(gpu::best_isa()).to_bf16(values, reinterpret_cast<std::uint16_t*>(target), kDim);
    } else {
      gpu::store_quantized_row(kv, values, kDim, target);
    }
  }
  std::vector<float> load(const Pages& in, std::size_t part, std::size_t head, std::size_t entry) const {
    std::vector<float> values(kDim);
    const std::byte* source = in[entry / kPageTokens].data() + at(part, head, entry);
    if (kv == KvType::kF32) {
      std::memcpy(values.data(), source, kDim * sizeof(float));
    } else if (kv == KvType::kBF16) {
      for (std::size_t i = 0; i < kDim; ++i) {
        std::uint16_t bits;
        std::memcpy(&bits, source + 2 * i, 2);
        values[i] = std::bit_cast<float>(std::uint32_t{bits} << 16);
      }
    } else {
      gpu::load_quantized_row(kv, source, kDim, values.data());
    }
    return values;
  }
  cpu::PromptPages prompt() const { return {.from = from, .tokens = kTokens, .into = into}; }

  test::NaiveHead naive(std::size_t kv_head, const KvBudget& budget) const {
    test::NaiveHead head{.dim = kDim, .scale = layer.scale};
    for (std::size_t t = 0; t < kTokens; ++t) {
      const std::vector<float> key = load(pages, layer.k, kv_head, t);
      head.keys.insert(head.keys.end(), key.begin(), key.end());
    }
    const std::size_t group = kHeads / kKvHeads;
    for (std::size_t g = 0; g < group; ++g) {
      head.queries.emplace_back();
      for (std::size_t t = kTokens - budget.window; t < kTokens; ++t) {
        const float* q = tail->row(t, layer.queries) + (kv_head * group + g) * kDim;
        head.queries.back().insert(head.queries.back().end(), q, q + kDim);
      }
    }
    return head;
  }

  KvType kv;
  std::size_t row;
  std::mt19937 random;
  std::normal_distribution<float> normal;
  cpu::KvLayer layer{};
  Pages pages;
  Pages kept_pages;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> into;
  std::unique_ptr<PromptTail> tail;
};

class KvCompaction : public testing::TestWithParam<KvType> {};

TEST_P(KvCompaction, KeepsWhatTheDefinitionKeeps) {
  gpu::Threads threads(3);
  for (const KvBudget& budget :
       {kSmall, KvBudget{.tokens = 299, .window = 1, .sinks = 0},
        KvBudget{.tokens = 99, .window = 16, .sinks = 4, .pool_width = 1},
        KvBudget{.tokens = 128, .window = 70, .pooling = KvBudget::Pooling::kMax, .pool_width = 7}}) {
    const MadeLayer made(GetParam(), budget);
    const auto kept = cpu::choose_entries(threads, made.layer, made.prompt(), *made.tail, budget);
    ASSERT_EQ(kept.size(), MadeLayer::kKvHeads);
    for (std::size_t head = 0; head < kept.size(); ++head) {
      const auto scores = test::naive_scores(made.naive(head, budget), budget);
      EXPECT_EQ(kept[head], test::naive_kept(scores, MadeLayer::kTokens, budget)) << "head " << head;
    }
  }
}

// Adds one token after compaction, as decoding does.
TEST_P(KvCompaction, AttentionAfterItIsOverWhatWasKept) {
  gpu::Threads threads(2);
  MadeLayer made(GetParam(), kSmall);
  const auto kept = cpu::choose_entries(threads, made.layer, made.prompt(), *made.tail, kSmall);
  cpu::gather_entries(threads, made.layer, made.prompt(), kept);
  constexpr std::size_t kGroup = MadeLayer::kHeads / MadeLayer::kKvHeads, kDim = MadeLayer::kDim;
  for (std::size_t head = 0; head < MadeLayer::kKvHeads; ++head) {
    made.store(made.kept_pages, made.layer.k, head, kSmall.tokens);
    made.store(made.kept_pages, made.layer.v, head, kSmall.tokens);
    std::vector<float> q(kGroup * kDim);
    for (float& value : q) value = made.normal(made.random);
    std::vector<float> out(kGroup * kDim);
    const std::vector<const std::byte*> pages(made.into.begin(), made.into.end());
    gpu::cpu_kernels(gpu::best_isa())
        .attention({.q = q.data(),
                    .out = out.data(),
                    .group = kGroup,
                    .head_dim = kDim,
                    .length = kSmall.tokens + 1,
                    .scale = made.layer.scale,
                    .pages = pages.data(),
                    .k_offset = made.at(made.layer.k, head, 0),
                    .v_offset = made.at(made.layer.v, head, 0),
                    .kv = made.kv});
    for (std::size_t g = 0; g < kGroup; ++g) {
      std::vector<double> expected(kDim, 0);
      double total = 0;
      for (std::size_t i = 0; i <= kSmall.tokens; ++i) {
        const bool old = i < kSmall.tokens;
        const auto& source = old ? made.pages : made.kept_pages;
        const std::size_t entry = old ? kept[head][i] : i;
        const std::vector<float> key = made.load(source, made.layer.k, head, entry);
        const std::vector<float> value = made.load(source, made.layer.v, head, entry);
        double score = 0;
        for (std::size_t d = 0; d < kDim; ++d) score += static_cast<double>(q[g * kDim + d]) * key[d];
        const double weight = std::exp(score * made.layer.scale);
        total += weight;
        for (std::size_t d = 0; d < kDim; ++d) expected[d] += weight * value[d];
      }
      for (std::size_t d = 0; d < kDim; ++d) EXPECT_NEAR(out[g * kDim + d], expected[d] / total, 2e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, KvCompaction,
                         testing::Values(KvType::kF32, KvType::kBF16, KvType::kInt8, KvType::kInt4),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// -- whole models

std::vector<FamilySetting> settings_of(const std::set<std::string>& samples) {
  std::vector<FamilySetting> all = test::best_settings();
  std::erase_if(all, [&](const FamilySetting& setting) { return !samples.contains(setting.row.sample); });
  return all;
}

class CompactedModel : public testing::TestWithParam<FamilySetting> {
 protected:
  FamilyRuns runs_{GetParam(), 2, {.pages = 200, .slots = 16}};
  test::CompactedRuns compacted_{runs_};
};

TEST_P(CompactedModel, IsTheSameForEverySlicing) {
  compacted_.is_the_same_for_every_slicing(
      kSmall, {{1}, {64, 128}, {183, 184, 185}, {199}, {100, 190, 191, 192, 193}});
}

TEST_P(CompactedModel, RepliesTheSameInOneSlice) {
  gpu::Sequence one = compacted_.compacted(kSmall);
  gpu::Sequence other = compacted_.compacted(kSmall);
  EXPECT_EQ(one.pages().size(), 3U) << "two, and one for the reply";
  EXPECT_EQ(runs_.prefill(one, compacted_.reply()), runs_.decode(other, compacted_.reply()));
}

TEST_P(CompactedModel, GoesOnFromASnapshotThatLeavesTheWindow) {
  compacted_.goes_on_from_a_snapshot_at(kSmall, test::CompactedRuns::kLength - kSmall.window);
}

TEST_P(CompactedModel, RememberingQueriesChangesNothing) {
  compacted_.remembering_queries_changes_nothing(kSmall);
}

TEST_P(CompactedModel, IsSavedAndRestoredAsItIs) {
  compacted_.is_saved_and_restored_as_it_is(kSmall);
}

INSTANTIATE_TEST_SUITE_P(Families, CompactedModel, testing::ValuesIn(settings_of({"llama", "qwen3_5_text"})),
                         [](const auto& info) { return info.param.name(); });

TEST(CompactionRefusals, AModelThatCannotKeepFewerSaysWhy) {
  for (const FamilySetting& setting : settings_of({"recurrent_gemma"})) {
    const FamilyRuns windows(setting, 2, {.pages = 20, .slots = 2});
    EXPECT_NE(windows.model().why_not_compacted().find("no layer of attention"), std::string::npos);
    test::CompactedRuns(windows).remembering_queries_changes_nothing(kSmall);
  }
}

TEST(PromptTail, KnowsWhetherTheLastTokensAreThere) {
  gpu::ByteBudget budget(1000);
  const auto tail = PromptTail::make(8, 10, &budget);
  EXPECT_EQ(budget.used(), 80u);
  tail->note(0, 30);
  tail->note(30, 33);
  EXPECT_TRUE(tail->covers(33));
  EXPECT_FALSE(tail->covers(34));
  tail->note(0, 5);  // the prompt restarted
  EXPECT_FALSE(tail->covers(5));
  tail->note(20, 29);
  EXPECT_FALSE(tail->covers(29)) << "nine are there";
  tail->note(29, 30);
  EXPECT_TRUE(tail->covers(30));
  EXPECT_EQ(PromptTail::make(100, 10, &budget), nullptr) << "there is no room for it";
  EXPECT_EQ(budget.used(), 80u);
}

}  // namespace
}  // namespace reprise::models
