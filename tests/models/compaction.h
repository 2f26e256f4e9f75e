#pragma once
// Tests of prompt compaction with whole models, shared by kv_compaction_test.cc (CPU) and
// cuda_compaction_test.cc: different ways to a compacted sequence must give bitwise identical states and
// logits.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/models/model_runs.h"

namespace reprise::models::test {

class CompactedRuns {
 public:
  static constexpr std::size_t kLength = 200;
  static constexpr std::size_t kDecoded = 70;  // crosses a page boundary

  explicit CompactedRuns(const ModelRuns& runs)
      : runs_(runs), prompt_(runs.random_tokens(kLength, 1)), reply_(runs.random_tokens(kDecoded, 2)) {}

  std::span<const TokenId> prompt() const { return prompt_; }
  std::span<const TokenId> reply() const { return reply_; }

  std::unique_ptr<PromptTail> tail(const KvBudget& budget) const {
    return PromptTail::make(runs_.state().tail_bytes(), budget.window, nullptr, runs_.store().memory());
  }
  void feed(gpu::Sequence& sequence, PromptTail* tail, std::size_t begin, std::size_t end) const {
    const Slice slice{.sequence = &sequence,
                      .tokens = prompt().subspan(begin, end - begin),
                      .logits = Slice::Logits::kNone,
                      .tail = tail};
    runs_.model().forward({&slice, 1}, Phase::kPrefill);
  }
  void compact(gpu::Sequence& sequence, const PromptTail& tail, const KvBudget& budget) const {
    std::optional<gpu::PageRun> pages = runs_.store().take_pages(budget.tokens);
    ASSERT_TRUE(pages.has_value());
    runs_.model().compact({.sequence = &sequence, .tail = &tail, .budget = budget, .into = &*pages});
    sequence.replace_pages(std::move(*pages), budget.tokens);
    ASSERT_TRUE(sequence.reserve(kDecoded));
  }
  /// Prefills in slices that end at `cuts` and at kLength, and compacts.
  gpu::Sequence compacted(const KvBudget& budget, std::vector<std::size_t> cuts = {}) const {
    gpu::Sequence sequence = runs_.open(kLength);
    const auto ring = tail(budget);
    cuts.push_back(kLength);
    std::size_t done = 0;
    for (const std::size_t cut : cuts) feed(sequence, ring.get(), std::exchange(done, cut), cut);
    compact(sequence, *ring, budget);
    return sequence;
  }

  /// The sequence's state; on a CPU including the unused rest of each page, which is zero.
  std::vector<std::byte> all_of(const gpu::Sequence& sequence) const {
    std::vector<std::byte> bytes = runs_.state_of(sequence);
    for (std::size_t i = 0; runs_.grid() == 1 && i < sequence.pages().size(); ++i) {
      const auto page = runs_.bytes_at(sequence.page_data(i), runs_.state().sizes().page_bytes);
      bytes.insert(bytes.end(), page.begin(), page.end());
    }
    return bytes;
  }

  void is_the_same_for_every_slicing(const KvBudget& budget,
                                     const std::vector<std::vector<std::size_t>>& slicings) const {
    gpu::Sequence cold = compacted(budget);
    EXPECT_EQ(cold.stored(), budget.tokens);
    EXPECT_EQ(cold.logical(), kLength);
    const std::vector<std::byte> state = all_of(cold);
    const std::vector<float> logits = runs_.decode(cold, reply());
    const std::vector<std::byte> end = all_of(cold);
    for (const std::vector<std::size_t>& cuts : slicings) {
      SCOPED_TRACE(testing::PrintToString(cuts));
      gpu::Sequence sliced = compacted(budget, cuts);
      ASSERT_EQ(all_of(sliced), state);
      ASSERT_EQ(runs_.decode(sliced, reply()), logits);
      ASSERT_EQ(all_of(sliced), end);
    }
  }

  void goes_on_from_a_snapshot_at(const KvBudget& budget, std::size_t position) const {
    gpu::Sequence source = runs_.open(kLength);
    feed(source, nullptr, 0, position);
    gpu::Sequence restored = runs_.restore(runs_.capture(source), kLength - position);
    const auto ring = tail(budget);
    feed(restored, ring.get(), position, kLength);
    ASSERT_TRUE(ring->covers(kLength));
    compact(restored, *ring, budget);
    EXPECT_EQ(all_of(restored), all_of(compacted(budget)));
  }

  void remembering_queries_changes_nothing(const KvBudget& budget) const {
    gpu::Sequence plain = runs_.open(kLength);
    feed(plain, nullptr, 0, kLength);
    gpu::Sequence remembered = runs_.open(kLength);
    const auto ring = tail(budget);
    feed(remembered, ring.get(), 0, kLength);
    EXPECT_EQ(all_of(remembered), all_of(plain));
  }

  /// Checks that snapshots and copies of a compacted sequence keep both of its lengths.
  void is_saved_and_restored_as_it_is(const KvBudget& budget) const {
    gpu::Sequence cold = compacted(budget);
    const std::vector<float> reference = runs_.decode(cold, reply());
    const std::vector<std::byte> end = all_of(cold);
    gpu::Sequence preempted = compacted(budget);
    gpu::Sequence restored = compacted(budget);
    for (std::size_t step = 0; step < kDecoded; step += 5) {
      SCOPED_TRACE("step " + std::to_string(step));
      preempted = runs_.saved_and_loaded(std::move(preempted), kDecoded - step);
      restored = runs_.restore(runs_.capture(restored), kDecoded - step);
      for (gpu::Sequence* sequence : {&preempted, &restored}) {
        EXPECT_EQ(sequence->stored(), budget.tokens + step);
        EXPECT_EQ(sequence->logical(), kLength + step);
        const std::vector<float> logits = runs_.decode(*sequence, reply().subspan(step, 5));
        ASSERT_TRUE(same_logits(logits, reference, step, runs_.vocab()));
      }
    }
    EXPECT_EQ(all_of(preempted), end);
    EXPECT_EQ(all_of(restored), end);
  }

 private:
  const ModelRuns& runs_;
  std::vector<TokenId> prompt_;
  std::vector<TokenId> reply_;
};

}  // namespace reprise::models::test
