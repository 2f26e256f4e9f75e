// Exactness on a GPU: within a phase, logits and state depend bit for bit only on the tokens. Runs continue
// from the last grid position before a cut, as slices begin there.

#include <numeric>

#include "tests/models/cuda_fixture.h"
#include "tests/models/exactness.h"

namespace reprise::models {
namespace {

using gpu::Sequence;

class CudaExactness : public CudaModelTest {
 protected:
  static constexpr std::size_t kLength = 200;
  static constexpr std::size_t kDecodedFrom = 137;
  static constexpr std::size_t kDecoded = 70;  // crosses a page boundary

  void SetUp() override {
    CudaModelTest::SetUp();
    if (!IsSkipped()) cold_.emplace(*rig_, kLength, 1);
  }

  /// Compares `logits` with rows first, first + 1, ... of `reference`.
  testing::AssertionResult same(std::span<const float> logits, std::span<const float> reference,
                                std::size_t first) const {
    return test::same_logits(logits, reference, first, rig_->vocab());
  }

  Sequence at_decoding() {
    Sequence sequence = rig_->open(kDecodedFrom + kDecoded);
    rig_->prefill(sequence, cold_->from(0, kDecodedFrom), Slice::Logits::kNone);
    return sequence;
  }

  std::optional<test::ColdRun> cold_;
};

TEST_P(CudaExactness, TheSameRunTwice) {
  for (int time = 0; time < 2; ++time) {
    Sequence sequence = rig_->open(kLength);
    ASSERT_TRUE(cold_->has(rig_->prefill(sequence, cold_->from(0)), 0));
    ASSERT_TRUE(cold_->ends_as(sequence));
  }
  const NamedModel named(GetParam());
  const ModelRig again(model_folder(named.model), "cuda:0", named.options, named.cpu_experts);
  Sequence sequence = again.open(kLength);
  EXPECT_TRUE(cold_->has(again.prefill(sequence, cold_->from(0)), 0)) << "in a model loaded anew";
  EXPECT_EQ(again.state_of(sequence), cold_->state());
}

TEST_P(CudaExactness, EveryCutSlicedAndRestored) {
  std::vector<std::size_t> cuts(kLength - 1);
  std::iota(cuts.begin(), cuts.end(), 1);
  test::slices_and_restores_at(*cold_, cuts);
}

TEST_P(CudaExactness, SlicedAtEveryChoiceOfGridPlaces) {
  constexpr std::size_t kMultiples = (kLength - 1) / kGrid;
  for (unsigned chosen = 0; chosen < 1U << kMultiples; ++chosen) {
    SCOPED_TRACE("places " + std::to_string(chosen));
    Sequence sequence = rig_->open(kLength);
    std::size_t done = 0;
    for (std::size_t multiple = 1; multiple <= kMultiples + 1; ++multiple) {
      const bool last = multiple == kMultiples + 1;
      if (!last && (chosen >> (multiple - 1) & 1U) == 0) continue;
      const std::size_t end = last ? kLength : multiple * kGrid;
      ASSERT_TRUE(cold_->has(rig_->prefill(sequence, cold_->from(done, end)), done));
      done = end;
    }
    ASSERT_TRUE(cold_->ends_as(sequence));
  }
}

TEST_P(CudaExactness, LongerOnesAtRandom) {
  for (const std::size_t length : {700, 1531, 2049, 3000}) test::restored_at_random(*rig_, length, 4);
}

TEST_P(CudaExactness, ExportedStatesMatchSlicesThatEndThere) {
  if (!rig_->model().rules().exports_slots) {  // its slices must end where states are wanted
    EXPECT_TRUE(GetParam().starts_with("recurrent_gemma"))
        << GetParam() << ": only windows of attention do so";
    return;
  }
  std::mt19937 random(12);
  const test::ColdRun longer(*rig_, 700, 6);
  for (const test::ColdRun* cold : std::initializer_list<const test::ColdRun*>{&*cold_, &longer}) {
    for (const std::size_t begin : {std::size_t{0}, kGrid}) {
      SCOPED_TRACE("length " + std::to_string(cold->length()) + " from " + std::to_string(begin));
      std::vector<std::size_t> positions;
      for (std::size_t at = begin + kGrid; at < cold->length(); at += kGrid) {
        if (cold == &*cold_ || random() % 3 == 0) positions.push_back(at);
      }
      test::states_inside_a_slice(*cold, begin, positions,
                                  begin == 0 ? Slice::Logits::kAll : Slice::Logits::kLast);
    }
  }
}

TEST_P(CudaExactness, PrefillsThatComeAgainAndAgain) {
  constexpr int kTimes = 6;  // the last ones replay CUDA graphs
  for (const std::size_t length : {kLength, std::size_t{256}, std::size_t{450}}) {
    SCOPED_TRACE(length);
    const std::vector<TokenId> tokens = rig_->random_tokens(length, 21);
    Sequence cold = rig_->open(length);
    std::vector<float> last;
    for (std::size_t begin = 0; begin < length; begin += kGrid) {  // one tile at a time
      const std::size_t count = std::min(kGrid, length - begin);
      last = rig_->prefill(cold, std::span(tokens).subspan(begin, count), Slice::Logits::kLast);
    }
    const std::vector<std::byte> state = rig_->state_of(cold);
    for (int time = 0; time < kTimes; ++time) {
      Sequence sequence = rig_->open(length);
      EXPECT_TRUE(same(rig_->prefill(sequence, tokens, Slice::Logits::kLast), last, 0)) << time;
      EXPECT_TRUE(rig_->state_of(sequence) == state) << time;
    }
  }
}

TEST_P(CudaExactness, BatchedWithStrangers) {
  test::batched_with_strangers(*cold_, 12, 3, 150);
}

TEST_P(CudaExactness, PreemptedInThePrompt) {
  for (std::size_t cut = kGrid; cut < kLength; cut += kGrid) {
    SCOPED_TRACE("saved at " + std::to_string(cut));
    Sequence sequence = rig_->open(kLength);
    rig_->prefill(sequence, cold_->from(0, cut), Slice::Logits::kNone);
    sequence = rig_->saved_and_loaded(std::move(sequence), kLength - cut);
    ASSERT_TRUE(cold_->has(rig_->prefill(sequence, cold_->from(cut)), cut));
    ASSERT_TRUE(cold_->ends_as(sequence));
  }
}

TEST_P(CudaExactness, PreemptedOrRestoredBeforeEveryDecodedToken) {
  const std::vector<TokenId> decoded = rig_->random_tokens(kDecoded, 6);
  Sequence cold = at_decoding();
  const std::vector<float> reference = rig_->decode(cold, decoded);
  const std::vector<std::byte> end = rig_->state_of(cold);
  Sequence again = at_decoding();
  ASSERT_TRUE(same(rig_->decode(again, decoded), reference, 0)) << "the same run twice";
  Sequence preempted = at_decoding();
  Sequence restored = at_decoding();
  for (std::size_t step = 0; step < kDecoded; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    const auto token = std::span(decoded).subspan(step, 1);
    preempted = rig_->saved_and_loaded(std::move(preempted), kDecoded - step);
    ASSERT_TRUE(same(rig_->decode(preempted, token), reference, step)) << "preempted";
    restored = rig_->restore(rig_->capture(restored), kDecoded - step);
    ASSERT_TRUE(same(rig_->decode(restored, token), reference, step)) << "restored";
  }
  EXPECT_TRUE(rig_->state_of(preempted) == end);
  EXPECT_TRUE(rig_->state_of(restored) == end);
}

TEST_P(CudaExactness, DecodedAloneAndInBatches) {
  constexpr std::size_t kSteps = 12;
  const std::vector<TokenId> decoded = rig_->random_tokens(kSteps, 6);
  Sequence cold = at_decoding();
  const std::vector<float> reference = rig_->decode(cold, decoded);
  const std::vector<std::byte> end = rig_->state_of(cold);
  std::mt19937 random(8);
  for (const std::size_t size : {2U, 9U, 17U, 33U, 64U}) {
    SCOPED_TRACE("a batch of " + std::to_string(size));
    const std::size_t row = random() % size;
    std::vector<Sequence> sequences;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t length = i % 8 == 1 ? 900 : 1 + random() % 300;
      sequences.push_back(i == row ? at_decoding() : rig_->open(length + kSteps));
      if (i == row) continue;
      rig_->prefill(sequences[i], rig_->random_tokens(length, random()), Slice::Logits::kNone);
    }
    for (std::size_t step = 0; step < kSteps; ++step) {
      std::vector<TokenId> tokens = rig_->random_tokens(size, random());
      tokens[row] = decoded[step];
      std::vector<Slice> batch;
      for (std::size_t i = 0; i < size; ++i)
        batch.push_back({.sequence = &sequences[i], .tokens = {&tokens[i], 1}});
      const std::span<const float> logits = rig_->model().forward(batch, Phase::kDecode);
      ASSERT_EQ(logits.size(), size * rig_->vocab());
      ASSERT_TRUE(same(logits.subspan(row * rig_->vocab(), rig_->vocab()), reference, step))
          << "in place " << row;
    }
    ASSERT_TRUE(rig_->state_of(sequences[row]) == end);
  }
}

TEST_P(CudaExactness, DecodedWhereOthersWantNoLogits) {
  constexpr std::size_t kSteps = 5;
  const std::vector<TokenId> decoded = rig_->random_tokens(kSteps, 6);
  Sequence cold = at_decoding();
  const std::vector<float> reference = rig_->decode(cold, decoded);
  for (const std::size_t size : {3U, 20U}) {
    SCOPED_TRACE("a batch of " + std::to_string(size));
    std::vector<Sequence> sequences;
    for (std::size_t i = 0; i < size; ++i) {
      sequences.push_back(i == 1 ? at_decoding() : rig_->open(kGrid + kSteps));
      if (i == 1) continue;
      rig_->prefill(sequences[i], rig_->random_tokens(kGrid, static_cast<unsigned>(i)), Slice::Logits::kNone);
    }
    for (std::size_t step = 0; step < kSteps; ++step) {
      std::vector<Slice> batch;
      for (std::size_t i = 0; i < size; ++i) {
        batch.push_back({.sequence = &sequences[i],
                         .tokens = std::span(decoded).subspan(step, 1),
                         .logits = i % 2 == 1 ? Slice::Logits::kLast : Slice::Logits::kNone});
      }
      const std::span<const float> logits = rig_->model().forward(batch, Phase::kDecode);
      ASSERT_EQ(logits.size(), size / 2 * rig_->vocab());
      ASSERT_TRUE(same(logits.first(rig_->vocab()), reference, step)) << "step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CudaExactness, testing::ValuesIn(models_on_gpu()), test_name);
INSTANTIATE_TEST_SUITE_P(Precise, CudaExactness, testing::ValuesIn(precise_models()), test_name);
INSTANTIATE_TEST_SUITE_P(Blocks, CudaExactness, testing::ValuesIn(models_with_blocks()), test_name);

}  // namespace
}  // namespace reprise::models
