// Exactness for every family and ISA: logits and state depend bit for bit only on the tokens. Compares a cold
// run in one slice by memcmp with: every cut into slices, token by token, restoring a snapshot once or at
// every token, returning to an earlier turn, batching with other sequences, and other thread counts.
//
// The default setting with the best ISA runs everything, other settings a sample of the cuts, other ISAs
// three cuts of a shorter prompt and its last tokens one by one. With REPRISE_THOROUGH, all run everything.

#include <map>
#include <numeric>

#include "tests/models/exactness.h"
#include "tests/models/family_runs.h"
#include "tests/sanitized.h"
#include "tests/thorough.h"

namespace reprise::models {
namespace {

using gpu::kPageTokens;
using gpu::Sequence;
using gpu::Snapshot;
using test::ColdRun;
using test::FamilyRuns;
using test::FamilySetting;

constexpr std::size_t kLength = 2 * kPageTokens + 10;
constexpr gpu::StateBounds kBounds{.pages = 400, .slots = 64};

std::vector<std::size_t> all_cuts() {
  std::vector<std::size_t> all(kLength - 1);
  std::iota(all.begin(), all.end(), 1);
  return all;
}

void token_by_token(const ColdRun& cold, std::size_t begin) {
  Sequence sequence = cold.runs().open(cold.length());
  ASSERT_TRUE(cold.has(cold.runs().prefill(sequence, cold.from(0, begin)), 0));
  for (std::size_t t = begin; t < cold.length(); ++t) {
    ASSERT_TRUE(cold.has(cold.runs().decode(sequence, cold.from(t, t + 1)), t));
  }
  EXPECT_TRUE(cold.ends_as(sequence));
}

void turns_that_each_begin_with_the_last_ones_snapshot(const ColdRun& cold) {
  const test::ModelRuns& runs = cold.runs();
  Sequence first = runs.open(1);
  ASSERT_TRUE(cold.has(runs.prefill(first, cold.from(0, 1)), 0));
  std::optional<Snapshot> before(runs.capture(first));
  for (std::size_t t = 1; t < cold.length(); ++t) {
    Sequence turn = runs.restore(*before, 1);
    ASSERT_TRUE(cold.has(runs.prefill(turn, cold.from(t, t + 1)), t));
    if (t + 1 == cold.length()) {
      ASSERT_TRUE(cold.ends_as(turn));
    }
    before.emplace(runs.capture(turn));
  }
}

void edited_turns_and_back_again(const ColdRun& cold) {
  const test::ModelRuns& runs = cold.runs();
  const std::size_t turns[] = {20, 64, 90, 129};
  std::map<std::size_t, Snapshot> snapshots;
  {
    Sequence sequence = runs.open(cold.length());
    std::size_t done = 0;
    for (const std::size_t end : turns) {
      ASSERT_TRUE(cold.has(runs.prefill(sequence, cold.from(done, end)), done));
      snapshots.emplace(end, runs.capture(sequence));
      done = end;
    }
  }
  for (const std::size_t turn : turns) {
    SCOPED_TRACE("from " + std::to_string(turn));
    const std::span<const TokenId> kept = cold.from(0, turn);
    std::vector<TokenId> edited(kept.begin(), kept.end());
    for (const TokenId token : runs.random_tokens(30, static_cast<unsigned>(turn))) edited.push_back(token);
    Sequence other = runs.open(edited.size());
    const std::vector<float> expected = runs.prefill(other, edited);
    Sequence branch = runs.restore(snapshots.at(turn), 30);
    const std::vector<float> logits = runs.prefill(branch, std::span(edited).subspan(turn));
    ASSERT_TRUE(test::same_logits(logits, expected, turn, runs.vocab()));
    ASSERT_EQ(runs.state_of(branch), runs.state_of(other));
    Sequence back = runs.restore(snapshots.at(turn), cold.length() - turn);
    ASSERT_TRUE(cold.has(runs.prefill(back, cold.from(turn)), turn));
    ASSERT_TRUE(cold.ends_as(back));
  }
}

void states_inside_a_slice(const ColdRun& cold) {
  test::states_inside_a_slice(cold, 7, {8, 9, 63, 64, 65, 130, 137}, Slice::Logits::kAll);
}

class Exactness : public testing::TestWithParam<FamilySetting> {
 protected:
  /// True for the default settings; never under a sanitizer, which makes each step many times slower.
  static bool does_all() {
    const ComputeOptions& options = GetParam().options;
    const bool is_default = options.compute == gpu::Compute::kAuto && options.kv == gpu::KvType::kBF16;
    return (is_default || thorough()) && !kSanitized;
  }

  FamilyRuns runs_{GetParam(), 1, kBounds};
  ColdRun cold_{runs_, kLength, 1};
};

TEST_P(Exactness, EveryCutSlicedAndRestored) {
  if (does_all()) return test::slices_and_restores_at(cold_, all_cuts());
  test::slices_and_restores_at(cold_, {5, 64, 130});
}

TEST_P(Exactness, ExportedStatesMatchSlicesThatEndThere) {
  if (runs_.model().rules().exports_slots) return states_inside_a_slice(cold_);
  EXPECT_EQ(GetParam().row.sample, "recurrent_gemma") << "has its slices end where states are wanted";
}

TEST_P(Exactness, TokenByToken) {
  token_by_token(cold_, 0);
}

TEST_P(Exactness, TurnsThatEachBeginWithTheLastOnesSnapshot) {
  turns_that_each_begin_with_the_last_ones_snapshot(cold_);
}

TEST_P(Exactness, AnEditedTurnAndBackAgain) {
  edited_turns_and_back_again(cold_);
}

TEST_P(Exactness, BatchedWithStrangers) {
  test::batched_with_strangers(cold_, does_all() ? 10 : 1, 70, 3);
}

TEST_P(Exactness, OtherNumbersOfThreads) {
  for (const unsigned count : {2U, 3U, 5U}) {
    FamilyRuns other(GetParam(), count, {.pages = 8, .slots = 1});
    Sequence sequence = other.open(kLength);
    EXPECT_TRUE(cold_.has(other.prefill(sequence, cold_.from(0)), 0)) << count << " threads";
    EXPECT_TRUE(other.state_of(sequence) == cold_.state()) << count << " threads";
  }
}

TEST_P(Exactness, LongerOnesAtRandom) {
  test::restored_at_random(runs_, (does_all() ? 23 : 7) * kPageTokens, does_all() ? 3 : 1);
}

INSTANTIATE_TEST_SUITE_P(Families, Exactness, testing::ValuesIn(test::best_settings()),
                         [](const auto& info) { return info.param.name(); });

class OtherSetsExactness : public testing::TestWithParam<FamilySetting> {};

TEST_P(OtherSetsExactness, SlicedRestoredAndDecoded) {
  const FamilyRuns runs(GetParam(), 1, kBounds);
  const ColdRun cold(runs, thorough() ? kLength : kPageTokens + 8, 1);
  if (GetParam().options.compute == gpu::Compute::kF32) {  // other settings have different bits
    FamilySetting best = GetParam();
    best.options.isa = gpu::best_isa();
    const FamilyRuns others(best, 2, kBounds);
    Sequence sequence = others.open(cold.length());
    EXPECT_TRUE(cold.has(others.prefill(sequence, cold.from(0)), 0)) << "with the best set";
    EXPECT_TRUE(others.state_of(sequence) == cold.state()) << "with the best set";
  }
  if (!thorough()) {
    test::slices_and_restores_at(cold, {5, 64, 67});
    token_by_token(cold, cold.length() - 4);
    return;
  }
  test::slices_and_restores_at(cold, all_cuts());
  if (runs.model().rules().exports_slots) states_inside_a_slice(cold);
  token_by_token(cold, 0);
  turns_that_each_begin_with_the_last_ones_snapshot(cold);
  edited_turns_and_back_again(cold);
  test::batched_with_strangers(cold, 2, 70, 3);
  test::restored_at_random(runs, 7 * kPageTokens, 2);
}

INSTANTIATE_TEST_SUITE_P(Families, OtherSetsExactness, testing::ValuesIn(test::other_settings()),
                         [](const auto& info) { return info.param.name(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OtherSetsExactness);  // empty under a sanitizer

}  // namespace
}  // namespace reprise::models
