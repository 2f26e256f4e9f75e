// Exactness, for every family and instruction set: the logits after a token, and the state, depend on the tokens alone,
// bit for bit. Compared by memcmp: a cold run in one slice, against slicing at every cut, token by token, restoring from
// a snapshot once or at every token, going back to an earlier turn, batching with strangers, and other numbers of
// threads.

#include <algorithm>
#include <cstring>
#include <map>

#include "tests/models/family_runs.h"
#include "tests/sanitized.h"

namespace reprise::models {
namespace {

using gpu::Sequence;
using gpu::Snapshot;
using test::FamilyRuns;
using test::FamilySetting;
using test::same_logits;

class Exactness : public testing::TestWithParam<FamilySetting> {
 protected:
  static constexpr std::size_t kLength = 3 * gpu::kPageTokens;

  Exactness() : runs_(GetParam(), 1, {.pages = 400, .slots = 64}) {
    tokens_ = runs_.random_tokens(kLength, 1);
    Sequence cold = runs_.open(kLength);
    reference_ = runs_.run(cold, tokens_);
    reference_state_ = runs_.state_of(cold);
  }

  testing::AssertionResult equals_reference(const std::vector<float>& logits, std::size_t first) const {
    return same_logits(logits, reference_, first, runs_.vocab());
  }
  testing::AssertionResult ends_as_reference(const Sequence& sequence) const {
    if (runs_.state_of(sequence) == reference_state_) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "the state differs from the cold run's";
  }
  std::span<const TokenId> from(std::size_t begin, std::size_t end = kLength) const {
    return std::span(tokens_).subspan(begin, end - begin);
  }

  /// As the family runs where nobody asks for another way: the machine's best instruction set, and the settings that are
  /// the default. Not under a sanitizer, which makes each step many times slower.
  static bool is_thorough() {
    const ComputeOptions& options = GetParam().options;
    return GetParam().is_best_isa() && options.compute == gpu::Compute::kAuto &&
           options.kv == gpu::KvType::kBF16 && !kSanitized;
  }

  /// All of them, or those around the ends of pages.
  static std::vector<std::size_t> cuts() {
    if (kSanitized) return {5, 64, 130};
    if (!is_thorough()) return {1, 2, 3, 4, 5, 63, 64, 65, 130, kLength - 1};
    std::vector<std::size_t> all;
    for (std::size_t cut = 1; cut < kLength; ++cut) all.push_back(cut);
    return all;
  }

  static int rounds(int best) { return is_thorough() ? best : 2; }

  FamilyRuns runs_;
  std::vector<TokenId> tokens_;
  std::vector<float> reference_;
  std::vector<std::byte> reference_state_;
};

TEST_P(Exactness, EveryCutSlicedAndRestored) {
  for (const std::size_t cut : cuts()) {
    SCOPED_TRACE("cut at " + std::to_string(cut));
    Sequence source = runs_.open(kLength);
    ASSERT_TRUE(equals_reference(runs_.run(source, from(0, cut)), 0));
    const Snapshot snapshot = runs_.capture(source);
    ASSERT_TRUE(equals_reference(runs_.run(source, from(cut)), cut)) << "capturing touched its source";
    ASSERT_TRUE(ends_as_reference(source));
    for (int time = 0; time < 2; ++time) {  // twice: restoring must not touch the snapshot
      Sequence restored = runs_.restore(snapshot, kLength - cut);
      ASSERT_TRUE(equals_reference(runs_.run(restored, from(cut)), cut));
      ASSERT_TRUE(ends_as_reference(restored));
    }
  }
}

// Left on the way, in one pass, beside a stranger whose slice leaves none.
TEST_P(Exactness, StatesInsideASliceAreThoseOfSlicesThatEndThere) {
  if (!runs_.model().rules().exports_slots) GTEST_SKIP() << "its slices end where states are wanted";
  const std::size_t begin = 7;
  Sequence passing = runs_.open(kLength);
  ASSERT_TRUE(equals_reference(runs_.run(passing, from(0, begin)), 0));
  std::vector<Snapshot> passed;
  std::vector<SlotExport> exports;
  for (const std::size_t at : {8U, 9U, 63U, 64U, 65U, 130U, 191U}) {
    passed.push_back(std::move(*runs_.store().begin_capture(passing, at)));
    exports.push_back({.after = static_cast<std::uint32_t>(at - begin),
                       .slot = passed.back().slot_data(),
                       .tail = passed.back().tail_data()});
  }
  const std::vector<TokenId> text = runs_.random_tokens(50, 9);
  Sequence stranger = runs_.open(text.size());
  const Slice slices[] = {
      {.sequence = &stranger, .tokens = text, .logits = Slice::Logits::kNone},
      {.sequence = &passing, .tokens = from(begin), .logits = Slice::Logits::kAll, .exports = exports}};
  const std::span<const float> rows = runs_.model().forward(slices, Phase::kPrefill);
  ASSERT_TRUE(equals_reference({rows.begin(), rows.end()}, begin));
  ASSERT_TRUE(ends_as_reference(passing));
  std::vector<Snapshot*> written;
  for (Snapshot& one : passed) written.push_back(&one);
  runs_.store().end_captures(written);
  for (const Snapshot& one : passed) {
    SCOPED_TRACE("at " + std::to_string(one.stored()));
    EXPECT_TRUE(one.finite());
    Sequence cut = runs_.open(one.stored());
    ASSERT_TRUE(equals_reference(runs_.run(cut, from(0, one.stored())), 0));
    const Snapshot ended = runs_.capture(cut);
    if (one.tail_data() != nullptr) {
      const std::size_t bytes = runs_.state().sizes().page_bytes;
      EXPECT_EQ(std::memcmp(one.tail_data(), ended.tail_data(), bytes), 0) << "the page that is not full";
    }
    Sequence restored = runs_.restore(one, kLength - one.stored());
    ASSERT_EQ(runs_.state_of(restored), runs_.state_of(cut));
    ASSERT_TRUE(equals_reference(runs_.run(restored, from(one.stored())), one.stored()));
    ASSERT_TRUE(ends_as_reference(restored));
  }
}

TEST_P(Exactness, TokenByToken) {
  Sequence sequence = runs_.open(kLength);
  for (std::size_t t = 0; t < kLength; ++t) {
    ASSERT_TRUE(equals_reference(runs_.run(sequence, from(t, t + 1)), t));
  }
  EXPECT_TRUE(ends_as_reference(sequence));
}

TEST_P(Exactness, TurnsThatEachBeginWithTheLastOnesSnapshot) {
  Sequence first = runs_.open(1);
  ASSERT_TRUE(equals_reference(runs_.run(first, from(0, 1)), 0));
  std::optional<Snapshot> before(runs_.capture(first));
  for (std::size_t t = 1; t < kLength; ++t) {
    Sequence turn = runs_.restore(*before, 1);
    ASSERT_TRUE(equals_reference(runs_.run(turn, from(t, t + 1)), t));
    if (t + 1 == kLength) {
      ASSERT_TRUE(ends_as_reference(turn));
    }
    before.emplace(runs_.capture(turn));
  }
}

TEST_P(Exactness, AnEditedTurnAndBackAgain) {
  const std::size_t turns[] = {20, 64, 90, 129, 160};
  std::map<std::size_t, Snapshot> snapshots;
  {
    Sequence sequence = runs_.open(kLength);
    std::size_t done = 0;
    for (const std::size_t end : turns) {
      ASSERT_TRUE(equals_reference(runs_.run(sequence, from(done, end)), done));
      snapshots.emplace(end, runs_.capture(sequence));
      done = end;
    }
  }
  for (const std::size_t turn : turns) {
    SCOPED_TRACE("from " + std::to_string(turn));
    std::vector<TokenId> edited(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(turn));
    for (const TokenId token : runs_.random_tokens(30, static_cast<unsigned>(turn))) edited.push_back(token);
    Sequence cold = runs_.open(edited.size());
    const std::vector<float> expected = runs_.run(cold, edited);
    Sequence branch = runs_.restore(snapshots.at(turn), 30);
    ASSERT_TRUE(
        same_logits(runs_.run(branch, std::span(edited).subspan(turn)), expected, turn, runs_.vocab()));
    Sequence back = runs_.restore(snapshots.at(turn), kLength - turn);
    ASSERT_TRUE(equals_reference(runs_.run(back, from(turn)), turn));
    ASSERT_TRUE(ends_as_reference(back));
  }
}

TEST_P(Exactness, BatchedWithStrangers) {
  std::mt19937 random(5);
  for (int round = 0; round < rounds(20); ++round) {
    Sequence ours = runs_.open(kLength);
    std::vector<Sequence> strangers;
    for (int i = 0; i < 5; ++i) strangers.push_back(runs_.open(gpu::kPageTokens * 4));
    for (std::size_t done = 0; done < kLength;) {
      const std::size_t count = std::min<std::size_t>(kLength - done, 1 + random() % 70);
      std::vector<std::vector<TokenId>> texts;
      for (std::size_t i = 0; i < strangers.size(); ++i)
        texts.push_back(runs_.random_tokens(1 + random() % 3, random()));
      std::vector<Slice> batch;
      const std::size_t place = random() % (strangers.size() + 1);
      for (std::size_t i = 0; i <= strangers.size(); ++i) {
        if (i == place) batch.push_back({&ours, from(done, done + count), Slice::Logits::kAll});
        if (i < strangers.size()) batch.push_back({&strangers[i], texts[i], Slice::Logits::kNone});
      }
      const std::span<const float> logits = runs_.model().forward(batch);
      ASSERT_TRUE(equals_reference({logits.begin(), logits.end()}, done));
      done += count;
    }
    ASSERT_TRUE(ends_as_reference(ours));
  }
}

TEST_P(Exactness, OtherNumbersOfThreads) {
  for (const unsigned count : {2U, 3U, 5U}) {
    FamilyRuns other(GetParam(), count, {.pages = 8, .slots = 1});
    Sequence sequence = other.open(kLength);
    EXPECT_TRUE(equals_reference(other.run(sequence, tokens_), 0)) << count << " threads";
    EXPECT_TRUE(other.state_of(sequence) == reference_state_) << count << " threads";
  }
}

TEST_P(Exactness, ThePlainKernelsBitsWhereComputeIsF32) {
  FamilySetting plain = GetParam();
  if (plain.options.compute != gpu::Compute::kF32) return;  // other settings have bits of their own
  plain.options.isa = gpu::Isa::kPlain;
  FamilyRuns other(plain, 1, {.pages = 8, .slots = 1});
  Sequence sequence = other.open(kLength);
  EXPECT_TRUE(equals_reference(other.run(sequence, tokens_), 0));
  EXPECT_TRUE(other.state_of(sequence) == reference_state_);
}

TEST_P(Exactness, LongerOnesAtRandom) {
  std::mt19937 random(9);
  const std::size_t length = (is_thorough() ? 23 : 7) * gpu::kPageTokens;
  const std::vector<TokenId> tokens = runs_.random_tokens(length, 2);
  Sequence cold = runs_.open(length);
  const std::vector<float> reference = runs_.run(cold, tokens);
  const std::vector<std::byte> end = runs_.state_of(cold);
  for (int round = 0; round < rounds(6); ++round) {
    const std::size_t cut = 200 + random() % (length - 201);
    Sequence source = runs_.open(length);
    runs_.run(source, std::span(tokens).first(cut));
    Sequence restored = runs_.restore(runs_.capture(source), length - cut);
    EXPECT_TRUE(
        same_logits(runs_.run(restored, std::span(tokens).subspan(cut)), reference, cut, runs_.vocab()));
    EXPECT_TRUE(runs_.state_of(restored) == end);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Exactness, testing::ValuesIn(test::family_settings()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace reprise::models
