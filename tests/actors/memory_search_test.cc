// The search for memory: free memory, reclaims, preemptions, and the result when all fail.

#include "tests/actors/worker_parts.h"

namespace reprise::actors {
namespace {

using protocol::Priority;

MemoryNeed need_of(std::uint64_t bytes, const SequenceRun* needy = nullptr) {
  return {.bytes = bytes, .block = bytes, .needy = needy};
}

/// Makes a search whose last reclaim freed nothing.
void exhaust(WorkerParts& parts) {
  ASSERT_EQ(parts.memory.find(need_of(parts.state.budget().limit() + 1)), Availability::kComing);
  parts.memory.reclaim_ended(0);
}

TEST(MemoryReclaimer, FreeMemoryNeedsNoReclaim) {
  WorkerParts parts({.limit = 1000});
  EXPECT_EQ(parts.memory.find(need_of(1000)), Availability::kHere);
  EXPECT_TRUE(parts.reclaims.empty());
}

TEST(MemoryReclaimer, OneReclaimRunsAtATime) {
  WorkerParts parts({.limit = 1000});
  parts.take_all_but(100);
  EXPECT_EQ(parts.memory.find(need_of(300)), Availability::kComing);
  EXPECT_EQ(parts.memory.find(need_of(500)), Availability::kComing) << "somebody else's reclaim is under way";
  EXPECT_EQ(parts.reclaims, std::vector<std::uint64_t>{200});
  EXPECT_FALSE(parts.memory.job_is_short());
  parts.state.budget().give(250);
  parts.memory.reclaim_ended(250);
  EXPECT_EQ(parts.memory.find(need_of(300)), Availability::kHere);
  EXPECT_EQ(parts.memory.find(need_of(500)), Availability::kComing) << "and the next one begins";
  EXPECT_EQ(parts.reclaims.size(), 2U);
}

TEST(MemoryReclaimer, ReclaimIsRetriedOnlyAfterMemoryChanged) {
  WorkerParts parts({.limit = 1000});
  exhaust(parts);
  EXPECT_EQ(parts.memory.find(need_of(1001)), Availability::kNone);
  EXPECT_TRUE(parts.memory.job_is_short());
  parts.memory.begin_round();
  EXPECT_FALSE(parts.memory.job_is_short());
  EXPECT_EQ(parts.memory.find(need_of(1001)), Availability::kNone);
  EXPECT_EQ(parts.reclaims.size(), 1U);
  parts.memory.memory_changed();
  EXPECT_EQ(parts.memory.find(need_of(1001)), Availability::kComing);
  EXPECT_EQ(parts.reclaims.size(), 2U);
}

TEST(MemoryReclaimer, OvertakenReclaimIsNotExhaustion) {
  WorkerParts parts({.limit = 1000});
  ASSERT_EQ(parts.memory.find(need_of(1001)), Availability::kComing);
  parts.memory.memory_changed();  // a lease ended after the registry had answered
  EXPECT_TRUE(parts.memory.reclaiming());
  parts.memory.reclaim_ended(0);
  EXPECT_EQ(parts.memory.find(need_of(1001)), Availability::kComing) << "it is asked for again";
  EXPECT_EQ(parts.reclaims.size(), 2U);
}

TEST(MemoryReclaimer, OptionalNeedIsNotAShortage) {
  WorkerParts parts({.limit = 1000});
  exhaust(parts);
  EXPECT_EQ(parts.memory.find({.bytes = 1001, .block = 1, .dispensable = true}), Availability::kNone);
  EXPECT_FALSE(parts.memory.job_is_short());
}

TEST(MemoryReclaimer, IdleWorkGoesFirstThenTheYoungestThatIsYounger) {
  WorkerParts parts;
  SequenceRun& oldest = parts.decoding_run(64);
  SequenceRun& needy = parts.decoding_run(64);
  SequenceRun& idle = parts.decoding_run(64);
  idle.priority = Priority::kIdle;
  SequenceRun& young = parts.decoding_run(64);
  SequenceRun& youngest = parts.decoding_run(64);
  SequenceRun& computed = parts.decoding_run(64);
  computed.in_step = true;
  SequenceRun& resting = parts.open(64);
  ASSERT_TRUE(parts.memory.preempt_for(&needy));
  EXPECT_EQ(idle.phase, Phase::kIdle) << "idle work is over";
  EXPECT_FALSE(idle.state.has_value());
  ASSERT_TRUE(parts.memory.preempt_for(&needy));
  EXPECT_FALSE(youngest.state.has_value());
  EXPECT_EQ(youngest.phase, Phase::kDecode) << "a request goes on later";
  ASSERT_TRUE(parts.memory.preempt_for(&needy));
  EXPECT_FALSE(young.state.has_value());
  EXPECT_FALSE(parts.memory.preempt_for(&needy));
  EXPECT_TRUE(oldest.state && computed.state && resting.state && needy.state);
  computed.in_step = false;
}

TEST(MemoryReclaimer, WithoutANeedySequenceOnlyIdleWorkIsPreempted) {
  WorkerParts parts;
  SequenceRun& request = parts.decoding_run(64);
  SequenceRun& idle = parts.decoding_run(64);
  idle.priority = Priority::kIdle;
  EXPECT_TRUE(parts.memory.preempt_for(nullptr));
  EXPECT_FALSE(parts.memory.preempt_for(nullptr));
  EXPECT_TRUE(request.state.has_value());
}

TEST(MemoryReclaimer, PreemptsOnlyIfRegistriesFreeNothing) {
  WorkerParts parts({.limit = 2 * (kSlotBytes + kPageBytes)});
  SequenceRun& needy = parts.decoding_run(64);
  SequenceRun& younger = parts.decoding_run(64);
  EXPECT_EQ(parts.memory.find(need_of(kPageBytes, &needy)), Availability::kComing);
  EXPECT_TRUE(younger.state.has_value());
  parts.memory.reclaim_ended(0);
  EXPECT_EQ(parts.memory.find(need_of(kPageBytes, &needy)), Availability::kHere);
  EXPECT_FALSE(younger.state.has_value());
  EXPECT_FALSE(parts.memory.job_is_short());
  EXPECT_EQ(parts.figures.preemptions.load(), 1U);
}

TEST(MemoryReclaimer, UnreplayableStatesAreSavedWhileTheSwapFits) {
  const std::uint64_t one = kSlotBytes + kPageBytes;
  WorkerParts parts({.limit = 1 << 20, .swap = one + one / 2, .rules = kGpuRules});
  parts.decoding_run(64);
  SequenceRun& second = parts.decoding_run(64);
  SequenceRun& third = parts.decoding_run(64);
  SequenceRun oldest;
  oldest.order = 0;
  ASSERT_TRUE(parts.memory.preempt_for(&oldest));
  EXPECT_TRUE(third.saved.has_value());
  const std::uint64_t swapped = parts.memory.swapped_bytes();
  EXPECT_GE(swapped, one);
  ASSERT_TRUE(parts.memory.preempt_for(&oldest));
  EXPECT_FALSE(second.saved.has_value()) << "the swap is full: it will be computed again";
  EXPECT_FALSE(second.state.has_value());
  EXPECT_TRUE(parts.memory.bring_back_preempted());
  EXPECT_TRUE(third.state.has_value());
  EXPECT_EQ(third.held_tokens(), 64U) << "with what it held";
  EXPECT_TRUE(second.state.has_value());
  EXPECT_EQ(second.held_tokens(), 0U) << "from the beginning";
  EXPECT_EQ(parts.memory.swapped_bytes(), 0U);
}

TEST(MemoryReclaimer, SwapIsAnEighthOfTheMemoryAtHand) {
  constexpr std::uint64_t kGiB = 1 << 30;
  EXPECT_EQ(swap_limit(64 * kGiB), 8 * kGiB);
  EXPECT_EQ(swap_limit(128 * kGiB), 16 * kGiB);
  EXPECT_EQ(swap_limit(128 * kGiB + 8), 16 * kGiB) << "at most";
  EXPECT_EQ(swap_limit(2 * kGiB), kGiB / 4);
  EXPECT_EQ(swap_limit(2 * kGiB - 8), kGiB / 4) << "at least";
  EXPECT_EQ(swap_limit(0), kGiB / 4) << "the system does not tell";
}

TEST(MemoryReclaimer, SwapThatIsNotGivenIsOfTheMachine) {
  WorkerParts parts({.swap = std::nullopt, .rules = kGpuRules});
  SequenceRun& run = parts.decoding_run(64);
  SequenceRun oldest;
  oldest.order = 0;
  ASSERT_TRUE(parts.memory.preempt_for(&oldest));
  EXPECT_TRUE(run.saved.has_value());
}

TEST(MemoryReclaimer, StateWithoutHostMemoryIsComputedAgain) {
  NoHostMemory memory;
  WorkerParts parts({.blocks = &memory, .rules = kGpuRules});
  SequenceRun& run = parts.decoding_run(64);
  SequenceRun oldest;
  oldest.order = 0;
  ASSERT_TRUE(parts.memory.preempt_for(&oldest));
  EXPECT_FALSE(run.saved.has_value());
  EXPECT_FALSE(run.state.has_value());
  EXPECT_EQ(parts.memory.swapped_bytes(), 0U);
  EXPECT_TRUE(parts.memory.bring_back_preempted());
  EXPECT_EQ(run.held_tokens(), 0U) << "from the beginning";
}

TEST(MemoryReclaimer, ThePreemptedComeBackTheOldestFirst) {
  WorkerParts parts({.limit = 2 * (kSlotBytes + 2 * kPageBytes)});
  SequenceRun& first = parts.decoding_run(64);
  SequenceRun& second = parts.decoding_run(64);
  SequenceRun oldest;
  oldest.order = 0;
  while (parts.memory.preempt_for(&oldest)) {
  }
  parts.take_all_but(kSlotBytes + 2 * kPageBytes);
  exhaust(parts);
  EXPECT_FALSE(parts.memory.bring_back_preempted()) << "there is room for one of them";
  EXPECT_TRUE(first.state.has_value());
  EXPECT_FALSE(second.state.has_value());
  EXPECT_TRUE(parts.memory.job_is_short());
}

}  // namespace
}  // namespace reprise::actors
