// Exactness on a GPU: within a phase, the logits after a token and the state depend on the tokens alone, bit
// for bit. Compared by memcmp with a cold run in one slice. Prefill slices begin on the grid, so what was
// computed up to a cut goes on from the last place of the grid before it. Without a GPU all of it is skipped.

#include "tests/models/cuda_fixture.h"

namespace reprise::models {
namespace {

using gpu::Sequence;
using gpu::Snapshot;

std::size_t on_grid(std::size_t tokens) {
  return tokens / kGrid * kGrid;
}

class CudaExactness : public CudaModelTest {
 protected:
  static constexpr std::size_t kLength = 200;
  static constexpr std::size_t kDecodedFrom = 137;
  static constexpr std::size_t kDecoded = 70;  // across an edge of a page

  void SetUp() override {
    CudaModelTest::SetUp();
    if (rig_ == nullptr) return;
    tokens_ = random_tokens(rig_->model(), kLength, 1);
    Sequence cold = rig_->open(kLength);
    reference_ = rig_->prefill(cold, tokens_);
    reference_state_ = rig_->state_of(cold);
  }

  std::span<const TokenId> from(std::size_t begin, std::size_t end = kLength) const {
    return std::span(tokens_).subspan(begin, end - begin);
  }

  /// `logits` are rows first, first + 1, ... of `reference`.
  testing::AssertionResult same(std::span<const float> logits, std::span<const float> reference,
                                std::size_t first) const {
    const std::size_t vocab = rig_->vocab();
    if (first * vocab + logits.size() > reference.size())
      return testing::AssertionFailure() << "too many logits";
    for (std::size_t at = 0; at < logits.size(); at += vocab) {
      const float* expected = reference.data() + first * vocab + at;
      if (std::memcmp(logits.data() + at, expected, vocab * sizeof(float)) != 0) {
        return testing::AssertionFailure()
               << "logits of row " << first + at / vocab << " differ from the cold run's";
      }
    }
    return testing::AssertionSuccess();
  }
  testing::AssertionResult as_reference(std::span<const float> logits, std::size_t first) const {
    return same(logits, reference_, first);
  }
  testing::AssertionResult same_state(const Sequence& sequence,
                                      const std::vector<std::byte>& expected) const {
    const std::vector<std::byte> state = rig_->state_of(sequence);
    if (state == expected) return testing::AssertionSuccess();
    const auto at = std::mismatch(state.begin(), state.end(), expected.begin(), expected.end()).first;
    return testing::AssertionFailure()
           << "the state differs from the cold run's at byte " << at - state.begin() << " of " << state.size()
           << "; the slot has " << rig_->model().state().sizes().slot_bytes;
  }
  testing::AssertionResult ends_as_reference(const Sequence& sequence) const {
    return same_state(sequence, reference_state_);
  }

  /// Prefilled up to kDecodedFrom: where decoding begins.
  Sequence at_decoding() {
    Sequence sequence = rig_->open(kDecodedFrom + kDecoded);
    rig_->prefill(sequence, from(0, kDecodedFrom), Slice::Logits::kNone);
    return sequence;
  }

  std::vector<TokenId> tokens_;
  std::vector<float> reference_;
  std::vector<std::byte> reference_state_;
};

TEST_P(CudaExactness, TheSameRunTwice) {
  for (int time = 0; time < 2; ++time) {
    Sequence sequence = rig_->open(kLength);
    ASSERT_TRUE(as_reference(rig_->prefill(sequence, tokens_), 0));
    ASSERT_TRUE(ends_as_reference(sequence));
  }
  const NamedModel named(GetParam());
  ModelRig again(model_folder(named.model), "cuda:0", named.options, named.cpu_experts);
  Sequence sequence = again.open(kLength);
  EXPECT_TRUE(as_reference(again.prefill(sequence, tokens_), 0)) << "in a model loaded anew";
  EXPECT_EQ(again.state_of(sequence), reference_state_);
}

TEST_P(CudaExactness, EveryCutSlicedAndRestored) {
  for (std::size_t cut = 1; cut < kLength; ++cut) {
    SCOPED_TRACE("cut at " + std::to_string(cut));
    const std::size_t kept = on_grid(cut);
    Sequence whole = rig_->open(cut);
    ASSERT_TRUE(as_reference(rig_->prefill(whole, from(0, cut)), 0)) << "as one slice";
    Sequence source = rig_->open(kLength);
    ASSERT_TRUE(as_reference(rig_->prefill(source, from(0, kept)), 0));
    const Snapshot snapshot = rig_->captured(source);
    ASSERT_TRUE(as_reference(rig_->prefill(source, from(kept, cut)), kept)) << "capturing touched its source";
    ASSERT_TRUE(same_state(source, rig_->state_of(whole))) << "at the cut";
    for (int time = 0; time < 2; ++time) {  // twice: restoring must not touch the snapshot
      Sequence restored = rig_->restored(snapshot, kLength - kept);
      ASSERT_EQ(restored.stored(), kept);
      ASSERT_TRUE(as_reference(rig_->prefill(restored, from(kept)), kept));
      ASSERT_TRUE(ends_as_reference(restored));
    }
  }
}

TEST_P(CudaExactness, SlicedAtEveryChoiceOfGridPlaces) {
  constexpr std::size_t kPlaces = (kLength - 1) / kGrid;
  for (unsigned chosen = 0; chosen < 1U << kPlaces; ++chosen) {
    SCOPED_TRACE("places " + std::to_string(chosen));
    Sequence sequence = rig_->open(kLength);
    std::size_t done = 0;
    for (std::size_t place = 1; place <= kPlaces + 1; ++place) {
      const bool last = place == kPlaces + 1;
      if (!last && (chosen >> (place - 1) & 1U) == 0) continue;
      const std::size_t end = last ? kLength : place * kGrid;
      ASSERT_TRUE(as_reference(rig_->prefill(sequence, from(done, end)), done));
      done = end;
    }
    ASSERT_TRUE(ends_as_reference(sequence));
  }
}

TEST_P(CudaExactness, LongerOnesAtRandom) {
  std::mt19937 random(9);
  const std::vector<TokenId> decoded = random_tokens(rig_->model(), 10, 4);
  for (const std::size_t length :
       {std::size_t{700}, std::size_t{1531}, std::size_t{2049}, std::size_t{3000}}) {
    SCOPED_TRACE("length " + std::to_string(length));
    const std::vector<TokenId> tokens = random_tokens(rig_->model(), length, 2);
    Sequence cold = rig_->open(length + decoded.size());
    const std::vector<float> reference = rig_->prefill(cold, tokens);
    const std::vector<std::byte> end = rig_->state_of(cold);
    const std::vector<float> after = rig_->decode(cold, decoded);
    for (int round = 0; round < 4; ++round) {
      const std::size_t cut = on_grid(kGrid + random() % (length - kGrid));
      SCOPED_TRACE("restored at " + std::to_string(cut));
      Sequence source = rig_->open(length);
      ASSERT_TRUE(same(rig_->prefill(source, std::span(tokens).first(cut)), reference, 0));
      Sequence restored = rig_->restored(rig_->captured(source), length - cut + decoded.size());
      for (std::size_t done = cut; done < length;) {
        const std::size_t count = std::min(length - done, kGrid * (1 + random() % 12));
        const auto slice = std::span(tokens).subspan(done, count);
        ASSERT_TRUE(same(rig_->prefill(restored, slice), reference, done));
        done += count;
      }
      ASSERT_TRUE(same_state(restored, end));
      ASSERT_TRUE(same(rig_->decode(restored, decoded), after, 0)) << "decoding after it";
    }
  }
}

TEST_P(CudaExactness, StatesInsideASliceAreThoseOfSlicesThatEndThere) {
  if (!rig_->model().rules().exports_slots) {  // its slices end where states are wanted
    EXPECT_TRUE(GetParam().starts_with("recurrent_gemma"))
        << GetParam() << ": only windows of attention do so";
    return;
  }
  std::mt19937 random(12);
  for (const std::size_t length : {kLength, std::size_t{700}}) {
    const std::vector<TokenId> tokens = random_tokens(rig_->model(), length, 6);
    for (const std::size_t begin : {std::size_t{0}, kGrid}) {
      SCOPED_TRACE("length " + std::to_string(length) + " from " + std::to_string(begin));
      Sequence cut = rig_->open(length);
      Sequence passing = rig_->open(length);
      for (Sequence* one : {&cut, &passing}) {
        rig_->prefill(*one, std::span(tokens).first(begin), Slice::Logits::kNone);
      }
      std::vector<Snapshot> passed;
      std::vector<SlotExport> exports;
      for (std::size_t at = begin + kGrid; at < length; at += kGrid) {
        if (length > kLength && random() % 3 != 0) continue;
        passed.push_back(std::move(*rig_->store().begin_capture(passing, at)));
        exports.push_back(
            {.after = static_cast<std::uint32_t>(at - begin), .slot = passed.back().slot_data()});
      }
      // A stranger in front, so that rows and tiles of the slice are not those of the batch.
      const std::vector<TokenId> text = random_tokens(rig_->model(), 100, 8);
      Sequence stranger = rig_->open(text.size());
      const Slice slices[] = {{.sequence = &stranger, .tokens = text, .logits = Slice::Logits::kNone},
                              {.sequence = &passing,
                               .tokens = std::span(tokens).subspan(begin),
                               .logits = Slice::Logits::kLast,
                               .exports = exports}};
      const std::span<const float> row = rig_->model().forward(slices, Phase::kPrefill);
      const std::vector<float> logits(row.begin(), row.end());
      std::vector<Snapshot*> written;
      for (Snapshot& one : passed) written.push_back(&one);
      rig_->store().end_captures(written);
      for (const Snapshot& one : passed) {
        SCOPED_TRACE("at " + std::to_string(one.stored()));
        rig_->prefill(cut, std::span(tokens).subspan(cut.stored(), one.stored() - cut.stored()),
                      Slice::Logits::kNone);
        EXPECT_TRUE(one.finite());
        Sequence restored = rig_->restored(one, length - one.stored());
        ASSERT_TRUE(same_state(restored, rig_->state_of(cut)));
        const std::vector<float> end =
            rig_->prefill(restored, std::span(tokens).subspan(one.stored()), Slice::Logits::kLast);
        ASSERT_TRUE(same(end, logits, 0)) << "what follows from it";
        ASSERT_TRUE(same_state(restored, rig_->state_of(passing)));
      }
    }
  }
}

TEST_P(CudaExactness, PrefillsThatComeAgainAndAgain) {
  constexpr int kTimes = 6;  // the last of them are recordings
  for (const std::size_t length : {kLength, std::size_t{256}, std::size_t{450}}) {
    SCOPED_TRACE(length);
    const std::vector<TokenId> tokens = random_tokens(rig_->model(), length, 21);
    Sequence cold = rig_->open(length);
    std::vector<float> last;
    for (std::size_t begin = 0; begin < length; begin += kGrid) {  // tile by tile
      const std::size_t count = std::min(kGrid, length - begin);
      last = rig_->prefill(cold, std::span(tokens).subspan(begin, count), Slice::Logits::kLast);
    }
    const std::vector<std::byte> state = rig_->state_of(cold);
    for (int time = 0; time < kTimes; ++time) {
      Sequence sequence = rig_->open(length);
      EXPECT_TRUE(same(rig_->prefill(sequence, tokens, Slice::Logits::kLast), last, 0)) << time;
      EXPECT_TRUE(same_state(sequence, state)) << time;
    }
  }
}

TEST_P(CudaExactness, BatchedWithStrangers) {
  std::mt19937 random(5);
  constexpr std::size_t kStrangers = 5;
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Sequence ours = rig_->open(kLength);
    for (std::size_t done = 0; done < kLength;) {
      const std::size_t count = std::min(kLength - done, kGrid * (1 + random() % 3));
      std::vector<Sequence> strangers;
      std::vector<std::vector<TokenId>> texts;
      for (std::size_t i = 0; i < kStrangers; ++i) {
        const std::size_t before = kGrid * (random() % 3);
        texts.push_back(random_tokens(rig_->model(), 1 + random() % 150, random()));
        strangers.push_back(rig_->open(before + texts[i].size()));
        rig_->prefill(strangers[i], random_tokens(rig_->model(), before, random()), Slice::Logits::kNone);
      }
      std::vector<Slice> batch;
      std::size_t first_row = 0;
      const std::size_t place = random() % (kStrangers + 1);
      for (std::size_t i = 0; i <= kStrangers; ++i) {
        if (i == place) batch.push_back({&ours, from(done, done + count), Slice::Logits::kAll});
        if (i == kStrangers) break;
        const bool asks = random() % 2 == 0;
        if (asks && i < place) ++first_row;
        batch.push_back({&strangers[i], texts[i], asks ? Slice::Logits::kLast : Slice::Logits::kNone});
      }
      const std::span<const float> logits = rig_->model().forward(batch, Phase::kPrefill);
      ASSERT_TRUE(as_reference(logits.subspan(first_row * rig_->vocab(), count * rig_->vocab()), done));
      done += count;
    }
    ASSERT_TRUE(ends_as_reference(ours));
  }
}

TEST_P(CudaExactness, PreemptedInThePrompt) {
  for (std::size_t cut = kGrid; cut < kLength; cut += kGrid) {
    SCOPED_TRACE("saved at " + std::to_string(cut));
    Sequence sequence = rig_->open(kLength);
    rig_->prefill(sequence, from(0, cut), Slice::Logits::kNone);
    sequence = rig_->saved_and_loaded(std::move(sequence), kLength - cut);
    ASSERT_TRUE(as_reference(rig_->prefill(sequence, from(cut)), cut));
    ASSERT_TRUE(ends_as_reference(sequence));
  }
}

TEST_P(CudaExactness, PreemptedOrRestoredBeforeEveryDecodedToken) {
  const std::vector<TokenId> decoded = random_tokens(rig_->model(), kDecoded, 6);
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
    restored = rig_->restored(rig_->captured(restored), kDecoded - step);
    ASSERT_TRUE(same(rig_->decode(restored, token), reference, step)) << "restored";
  }
  EXPECT_TRUE(same_state(preempted, end));
  EXPECT_TRUE(same_state(restored, end));
}

TEST_P(CudaExactness, DecodedAloneAndInBatches) {
  constexpr std::size_t kSteps = 12;
  const std::vector<TokenId> decoded = random_tokens(rig_->model(), kSteps, 6);
  Sequence cold = at_decoding();
  const std::vector<float> reference = rig_->decode(cold, decoded);
  const std::vector<std::byte> end = rig_->state_of(cold);
  std::mt19937 random(8);
  for (const std::size_t size : {2U, 9U, 17U, 33U, 64U}) {
    SCOPED_TRACE("a batch of " + std::to_string(size));
    const std::size_t place = random() % size;
    std::vector<Sequence> sequences;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t length = i % 8 == 1 ? 900 : 1 + random() % 300;
      sequences.push_back(i == place ? at_decoding() : rig_->open(length + kSteps));
      if (i == place) continue;
      rig_->prefill(sequences[i], random_tokens(rig_->model(), length, random()), Slice::Logits::kNone);
    }
    for (std::size_t step = 0; step < kSteps; ++step) {
      std::vector<TokenId> tokens = random_tokens(rig_->model(), size, random());
      tokens[place] = decoded[step];
      std::vector<Slice> batch;
      for (std::size_t i = 0; i < size; ++i)
        batch.push_back({.sequence = &sequences[i], .tokens = {&tokens[i], 1}});
      const std::span<const float> logits = rig_->model().forward(batch, Phase::kDecode);
      ASSERT_EQ(logits.size(), size * rig_->vocab());
      ASSERT_TRUE(same(logits.subspan(place * rig_->vocab(), rig_->vocab()), reference, step))
          << "in place " << place;
    }
    ASSERT_TRUE(same_state(sequences[place], end));
  }
}

TEST_P(CudaExactness, DecodedWhereOthersWantNoLogits) {
  constexpr std::size_t kSteps = 5;
  const std::vector<TokenId> decoded = random_tokens(rig_->model(), kSteps, 6);
  Sequence cold = at_decoding();
  const std::vector<float> reference = rig_->decode(cold, decoded);
  for (const std::size_t size : {3U, 20U}) {
    SCOPED_TRACE("a batch of " + std::to_string(size));
    std::vector<Sequence> sequences;
    for (std::size_t i = 0; i < size; ++i) {
      sequences.push_back(i == 1 ? at_decoding() : rig_->open(kGrid + kSteps));
      if (i == 1) continue;
      rig_->prefill(sequences[i], random_tokens(rig_->model(), kGrid, static_cast<unsigned>(i)),
                    Slice::Logits::kNone);
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
