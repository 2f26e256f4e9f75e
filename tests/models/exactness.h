#pragma once
// Exactness checks for any device: logits and state depend bit for bit only on the tokens. Each function
// computes a prompt in another way and compares with a cold run in one slice; used by exactness_test.cc and
// cuda_exactness_test.cc.

#include <string>

#include "tests/models/model_runs.h"

namespace reprise::models::test {

/// Restores a snapshot from the last grid position before each cut and continues from there.
inline void slices_and_restores_at(const ColdRun& cold, const std::vector<std::size_t>& cuts) {
  const ModelRuns& runs = cold.runs();
  const std::size_t length = cold.length();
  for (const std::size_t cut : cuts) {
    SCOPED_TRACE("cut at " + std::to_string(cut));
    const std::size_t kept = cut / runs.grid() * runs.grid();
    gpu::Sequence source = runs.open(length);
    ASSERT_TRUE(cold.has(runs.prefill(source, cold.from(0, kept)), 0));
    const gpu::Snapshot snapshot = runs.capture(source);
    ASSERT_TRUE(cold.has(runs.prefill(source, cold.from(kept)), kept)) << "capturing touched its source";
    ASSERT_TRUE(cold.ends_as(source));
    for (int time = 0; time < 2; ++time) {  // twice: restoring must not touch the snapshot
      gpu::Sequence restored = runs.restore(snapshot, length - kept);
      ASSERT_TRUE(cold.has(runs.prefill(restored, cold.from(kept)), kept));
      ASSERT_TRUE(cold.ends_as(restored));
    }
    if (kept == cut) continue;
    gpu::Sequence whole = runs.open(cut);
    ASSERT_TRUE(cold.has(runs.prefill(whole, cold.from(0, cut)), 0)) << "as one slice";
    gpu::Sequence sliced = runs.restore(snapshot, cut - kept);
    ASSERT_TRUE(cold.has(runs.prefill(sliced, cold.from(kept, cut)), kept));
    ASSERT_EQ(runs.state_of(sliced), runs.state_of(whole)) << "at the cut";
  }
}

/// Exports the state at each of `positions` inside one slice that begins at `begin`. The batch begins with
/// another sequence whose slice exports none.
inline void states_inside_a_slice(const ColdRun& cold, std::size_t begin,
                                  const std::vector<std::size_t>& positions, Slice::Logits wanted) {
  const ModelRuns& runs = cold.runs();
  const std::size_t length = cold.length();
  gpu::Sequence passing = runs.open(length);
  ASSERT_TRUE(cold.has(runs.prefill(passing, cold.from(0, begin)), 0));
  std::vector<gpu::Snapshot> passed;
  std::vector<SlotExport> exports;
  for (const std::size_t at : positions) {
    passed.push_back(std::move(*runs.store().begin_capture(passing, at)));
    exports.push_back({.after = static_cast<std::uint32_t>(at - begin),
                       .slot = passed.back().slot_data(),
                       .tail = passed.back().tail_data()});
  }
  const std::vector<TokenId> text = runs.random_tokens(100, 8);
  gpu::Sequence stranger = runs.open(text.size());
  const Slice slices[] = {
      {.sequence = &stranger, .tokens = text, .logits = Slice::Logits::kNone},
      {.sequence = &passing, .tokens = cold.from(begin), .logits = wanted, .exports = exports}};
  const std::span<const float> rows = runs.model().forward(slices, Phase::kPrefill);
  ASSERT_TRUE(cold.has(rows, wanted == Slice::Logits::kAll ? begin : length - 1));
  ASSERT_TRUE(cold.ends_as(passing));
  std::vector<gpu::Snapshot*> written;
  for (gpu::Snapshot& one : passed) written.push_back(&one);
  runs.store().end_captures(written);
  gpu::Sequence cut = runs.open(length);
  for (const gpu::Snapshot& one : passed) {
    SCOPED_TRACE("at " + std::to_string(one.stored()));
    EXPECT_TRUE(one.finite());
    runs.prefill(cut, cold.from(cut.stored(), one.stored()), Slice::Logits::kNone);
    if (one.tail_data() != nullptr) {
      const std::size_t bytes = runs.state().sizes().page_bytes;
      const gpu::Snapshot ended = runs.capture(cut);
      EXPECT_EQ(runs.bytes_at(one.tail_data(), bytes), runs.bytes_at(ended.tail_data(), bytes))
          << "the page that is not full";
    }
    gpu::Sequence restored = runs.restore(one, length - one.stored());
    ASSERT_EQ(runs.state_of(restored), runs.state_of(cut));
    ASSERT_TRUE(cold.has(runs.prefill(restored, cold.from(one.stored())), one.stored()));
    ASSERT_TRUE(cold.ends_as(restored));
  }
}

/// Computes the prompt in slices of up to `most` times the grid, each batched with five other sequences whose
/// slices have up to `max_text` tokens; some of them ask for logits.
inline void batched_with_strangers(const ColdRun& cold, int rounds, std::size_t most, std::size_t max_text) {
  const ModelRuns& runs = cold.runs();
  constexpr std::size_t kStrangers = 5;
  std::mt19937 random(5);
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    gpu::Sequence ours = runs.open(cold.length());
    for (std::size_t done = 0; done < cold.length();) {
      const std::size_t count = std::min(cold.length() - done, runs.grid() * (1 + random() % most));
      std::vector<gpu::Sequence> strangers;
      std::vector<std::vector<TokenId>> texts;
      for (std::size_t i = 0; i < kStrangers; ++i) {
        const std::size_t before = runs.grid() * (random() % 3);
        const std::size_t length = 1 + random() % max_text;
        texts.push_back(runs.random_tokens(length, random()));
        strangers.push_back(runs.open(before + length));
        runs.prefill(strangers[i], runs.random_tokens(before, random()), Slice::Logits::kNone);
      }
      std::vector<Slice> batch;
      std::size_t first_row = 0;
      const std::size_t row = random() % (kStrangers + 1);
      for (std::size_t i = 0; i <= kStrangers; ++i) {
        if (i == row) batch.push_back({&ours, cold.from(done, done + count), Slice::Logits::kAll});
        if (i == kStrangers) break;
        const bool asks = random() % 2 == 0;
        if (asks && i < row) ++first_row;
        batch.push_back({&strangers[i], texts[i], asks ? Slice::Logits::kLast : Slice::Logits::kNone});
      }
      const std::span<const float> logits = runs.model().forward(batch, Phase::kPrefill);
      ASSERT_TRUE(cold.has(logits.subspan(first_row * runs.vocab(), count * runs.vocab()), done));
      done += count;
    }
    ASSERT_TRUE(cold.ends_as(ours));
  }
}

/// Restores at random grid positions, continues in slices of random sizes, and decodes.
inline void restored_at_random(const ModelRuns& runs, std::size_t length, int rounds) {
  SCOPED_TRACE("length " + std::to_string(length));
  std::mt19937 random(9);
  const std::vector<TokenId> decoded = runs.random_tokens(10, 4);
  ColdRun cold(runs, length, 2, decoded.size());
  const std::vector<float> after = cold.decode(decoded);
  for (int round = 0; round < rounds; ++round) {
    const std::size_t cut =
        (gpu::kPageTokens + random() % (length - gpu::kPageTokens)) / runs.grid() * runs.grid();
    SCOPED_TRACE("restored at " + std::to_string(cut));
    gpu::Sequence source = runs.open(length);
    ASSERT_TRUE(cold.has(runs.prefill(source, cold.from(0, cut)), 0));
    gpu::Sequence restored = runs.restore(runs.capture(source), length - cut + decoded.size());
    for (std::size_t done = cut; done < length;) {
      const std::size_t count = std::min(length - done, gpu::kPageTokens * (1 + random() % 12));
      ASSERT_TRUE(cold.has(runs.prefill(restored, cold.from(done, done + count)), done));
      done += count;
    }
    ASSERT_TRUE(cold.ends_as(restored));
    ASSERT_TRUE(same_logits(runs.decode(restored, decoded), after, 0, runs.vocab())) << "decoding after it";
  }
}

}  // namespace reprise::models::test
