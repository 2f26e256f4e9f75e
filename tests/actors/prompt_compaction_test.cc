// A prompt with a KV budget in the worker's parts: its cost, its compaction, and the work after it.

#include "tests/actors/worker_parts.h"

namespace reprise::actors {
namespace {

constexpr KvBudget kBudget{.tokens = 100, .window = 10, .sinks = 2};

class PromptCompactionTest : public testing::Test {
 protected:
  static SequenceRun& open(WorkerParts& parts) {
    SequenceRun& run = parts.open();
    run.compaction.budget = kBudget;
    run.compaction.tail = models::PromptTail::make(kTailBytes, kBudget.window, &parts.state.budget());
    run.compaction.reserved_pages = 2;
    return run;
  }
  static void begin(WorkerParts& parts, SequenceRun& run, Prefilled& box, std::uint32_t end,
                    const std::vector<std::uint32_t>& positions = {}) {
    protocol::Prefill job{.sequence = run.id,
                          .tokens = WorkerParts::prompt(end),
                          .end = end,
                          .plan = WorkerParts::plan(positions)};
    auto reply = box.reply();
    ASSERT_FALSE(begin_prefill(parts.table, run, job, reply).has_value());
  }
  static void run_all(WorkerParts& parts) {
    while (parts.step.build(parts.table, {.tokens = 70})) parts.compute();
  }
};

TEST_F(PromptCompactionTest, CompactsAfterCheckpointsBeforeTheAnswer) {
  WorkerParts parts;
  SequenceRun& run = open(parts);
  Prefilled prefilled;
  begin(parts, run, prefilled, 300, {150, 290});
  run_all(parts);
  ASSERT_TRUE(prefilled.answered() && prefilled.answer().ok());
  EXPECT_EQ(parts.compacted, 1U);
  ASSERT_TRUE(prefilled.answer()->kept.has_value());
  EXPECT_EQ(prefilled.answer()->kept->tokens, 100U);
  EXPECT_EQ(prefilled.answer()->kept->bytes, 2 * kPageBytes);
  EXPECT_EQ(prefilled.answer()->kept->full_bytes, 5 * kPageBytes);
  EXPECT_EQ(run.held_tokens(), 300U);
  EXPECT_EQ(run.state->stored(), 100U);
  EXPECT_EQ(run.compaction.tail, nullptr) << "its bytes are free again";
  EXPECT_EQ(run.reserved_pages, 2U);
  ASSERT_EQ(parts.reports.size(), 2U);
  for (const auto& report : parts.reports) {
    const SnapshotRecord* record = parts.table.find(report.snapshot->snapshot);
    EXPECT_EQ(record->state.stored(), record->state.logical()) << "what others may restore is exact";
  }
  EXPECT_EQ(parts.figures.compactions.load(), 1U);
}

TEST_F(PromptCompactionTest, APromptWithinTheBudgetIsKeptWhole) {
  WorkerParts parts;
  SequenceRun& run = open(parts);
  Prefilled prefilled;
  begin(parts, run, prefilled, 100);
  run_all(parts);
  ASSERT_TRUE(prefilled.answered() && prefilled.answer().ok());
  EXPECT_EQ(parts.compacted, 0U);
  EXPECT_FALSE(prefilled.answer()->kept.has_value());
}

TEST_F(PromptCompactionTest, WaitsForItsMemory) {
  WorkerParts parts;
  SequenceRun& run = open(parts);
  Prefilled prefilled;
  begin(parts, run, prefilled, 128);
  ASSERT_TRUE(parts.step.build(parts.table, {.tokens = 200}));
  const std::uint64_t rest = parts.state.budget().free();
  parts.take_all_but(kPageBytes);
  parts.compute();
  EXPECT_FALSE(prefilled.answered());
  EXPECT_EQ(run.phase, Phase::kPrefill);
  EXPECT_EQ(parts.reclaims.size(), 1U) << "the registries are asked";
  EXPECT_FALSE(parts.step.build(parts.table, {.tokens = 200})) << "nothing is left to compute";
  parts.state.budget().give(rest - kPageBytes);
  parts.memory.reclaim_ended(rest);
  EXPECT_FALSE(parts.step.build(parts.table, {.tokens = 200}));
  ASSERT_TRUE(prefilled.answered() && prefilled.answer().ok());
  EXPECT_EQ(run.state->stored(), 100U);
}

TEST_F(PromptCompactionTest, LeaveOffWhileWaitingIsAnswered) {
  WorkerParts parts;
  SequenceRun& run = open(parts);
  Prefilled prefilled;
  begin(parts, run, prefilled, 128);
  ASSERT_TRUE(parts.step.build(parts.table, {.tokens = 200}));
  parts.take_all_but(kPageBytes);
  parts.compute();
  EXPECT_FALSE(prefilled.answered());
  EXPECT_TRUE(leave_off(parts.table, run));
  EXPECT_FALSE(parts.step.build(parts.table, {.tokens = 200}));
  ASSERT_TRUE(prefilled.answered() && prefilled.answer().ok());
  EXPECT_EQ(parts.compacted, 0U);
}

TEST_F(PromptCompactionTest, IsRefusedWhereTheLastQueriesAreNotThere) {
  WorkerParts parts;
  SequenceRun& source = parts.open(295);
  const auto snapshot = parts.snapshot_of(source);
  ASSERT_TRUE(snapshot.has_value());
  SequenceRun& run = open(parts);
  AnswerBox<JobResult<protocol::Restored>> restored;
  parts.snapshots.restore(
      {.sequence = run.id, .snapshot = *snapshot, .at = 295, .token_hash = WorkerParts::hash_of(295)},
      restored.reply(), parts.start);
  ASSERT_TRUE(restored.answered() && restored.answer().ok());
  Prefilled prefilled;
  begin(parts, run, prefilled, 300);
  run_all(parts);
  EXPECT_EQ(fault_of(prefilled), ErrorKind::kBadJob);
  EXPECT_EQ(parts.compacted, 0U);
}

TEST_F(PromptCompactionTest, LeaveOffCancelsCompaction) {
  WorkerParts parts;
  SequenceRun& run = open(parts);
  Prefilled prefilled;
  begin(parts, run, prefilled, 300, {299});
  ASSERT_TRUE(parts.step.build(parts.table, {.tokens = 200}));
  EXPECT_TRUE(leave_off(parts.table, run));
  parts.compute();
  run_all(parts);
  ASSERT_TRUE(prefilled.answered() && prefilled.answer().ok());
  EXPECT_EQ(parts.compacted, 0U);
}

// n > 1: choices continue from a raw snapshot of it, by tokens; no other request can use it.
TEST_F(PromptCompactionTest, SnapshotsOfItAreItsRequestsOwn) {
  WorkerParts parts;
  SequenceRun& run = open(parts);
  Prefilled prefilled;
  begin(parts, run, prefilled, 300);
  run_all(parts);
  EXPECT_FALSE(parts.snapshot_of(run).has_value()) << "canonical";
  const auto raw = parts.snapshot_of(run, protocol::SnapshotKv::Kind::kRaw);
  ASSERT_TRUE(raw.has_value());
  SequenceRun& other = parts.open();
  const auto restore = [&](std::uint32_t at) {
    AnswerBox<JobResult<protocol::Restored>> box;
    parts.snapshots.restore(
        {.sequence = other.id, .snapshot = *raw, .at = at, .token_hash = WorkerParts::hash_of(at)},
        box.reply(), parts.start);
    return box.answered() && box.answer().ok();
  };
  EXPECT_FALSE(restore(100)) << "it cannot be cut";
  ASSERT_TRUE(restore(300));
  EXPECT_EQ(other.held_tokens(), 300U);
  EXPECT_EQ(other.state->stored(), 100U);
  EXPECT_TRUE(other.compacted());
}

// Decoding continues after its KV entries, at the positions of its tokens.
TEST_F(PromptCompactionTest, CompactedSequenceIsPreemptedOnlyIntoTheSwap) {
  for (const std::uint64_t swap : {std::uint64_t{1} << 20, std::uint64_t{100}}) {
    WorkerParts parts({.swap = swap});
    SequenceRun& needy = parts.open(64);
    SequenceRun& run = open(parts);
    Prefilled prefilled;
    begin(parts, run, prefilled, 300);
    run_all(parts);
    run.phase = Phase::kDecode;
    run.decoded = {1, 2};
    ASSERT_TRUE(run.state->reserve(1));
    run.state->advance(1);
    EXPECT_EQ(parts.memory.preempt_for(&needy), swap > 100);
    EXPECT_TRUE(run.compacted()) << "here or in the swap";
    if (swap <= 100) continue;
    EXPECT_FALSE(run.state.has_value());
    EXPECT_GT(parts.memory.swapped_bytes(), 0U);
    EXPECT_TRUE(parts.memory.bring_back_preempted());
    EXPECT_EQ(run.held_tokens(), 301U);
    EXPECT_EQ(run.state->stored(), 101U);
    run.phase = Phase::kIdle;
  }
}

TEST_F(PromptCompactionTest, CompactedStateStaysWithoutHostMemory) {
  NoHostMemory memory;
  WorkerParts parts({.blocks = &memory});
  SequenceRun& needy = parts.open(64);
  SequenceRun& run = open(parts);
  Prefilled prefilled;
  begin(parts, run, prefilled, 300);
  run_all(parts);
  run.phase = Phase::kDecode;
  run.decoded = {1};
  EXPECT_FALSE(parts.memory.preempt_for(&needy));
  EXPECT_TRUE(run.state.has_value());
  EXPECT_EQ(parts.figures.preemptions.load(), 0U);
  EXPECT_EQ(parts.memory.swapped_bytes(), 0U);
  run.phase = Phase::kIdle;
}

// In one step: the memory that the prompt needs at its end belongs to a reply whose next token has just been
// computed.
TEST_F(PromptCompactionTest, ReplyPreemptedByCompactionKeepsItsNewToken) {
  WorkerParts parts;
  SequenceRun& needy = open(parts);
  SequenceRun& reply = open(parts);
  Prefilled of_reply;
  begin(parts, reply, of_reply, 300);
  run_all(parts);
  ASSERT_TRUE(reply.compacted());
  auto [writer, reader] = runtime::make_stream<protocol::DecodeEvent>(16);
  reply.phase = Phase::kDecode;
  reply.decoded = {1};
  reply.set_up_decode({.max_tokens = 8, .out = std::move(writer)}, kVocab);
  Prefilled prefilled;
  begin(parts, needy, prefilled, 128);
  ASSERT_TRUE(parts.step.build(parts.table, {.tokens_with_decoding = 200}));
  ASSERT_EQ(parts.step.work().decodes.slices.size(), 1U);
  const std::uint64_t rest = parts.state.budget().free();
  parts.take_all_but(kPageBytes);
  parts.memory.look_for_block(2 * kPageBytes);
  parts.memory.reclaim_ended(0);  // the registries have nothing to free
  parts.compute();
  EXPECT_TRUE(prefilled.answered());
  EXPECT_FALSE(reply.state.has_value());
  EXPECT_EQ(reply.decoded, (std::vector<TokenId>{1, 3}));
  parts.state.budget().give(rest - kPageBytes);
  parts.memory.memory_changed();
  ASSERT_TRUE(parts.memory.bring_back_preempted());
  ASSERT_TRUE(parts.step.build(parts.table, {.tokens_with_decoding = 200}));
  parts.compute(5);
  EXPECT_EQ(reply.decoded, (std::vector<TokenId>{1, 3, 5}));
  reply.phase = Phase::kIdle;
}

TEST_F(PromptCompactionTest, CostCoversPromptKeptEntriesAndQueries) {
  const std::uint64_t tail = kTailBytes * kBudget.window;
  const std::uint64_t all = kSlotBytes + (5 + 2) * kPageBytes + tail;
  for (const std::uint64_t limit : {all, all - 1}) {
    WorkerParts parts({.limit = limit});
    AnswerBox<JobResult<protocol::Opened>> opened;
    parts.admission.apply({.arch = {.generation = 7, .number = 7},
                           .ticket = 1,
                           .prompt_tokens = 300,
                           .max_tokens = 28,
                           .kv = kBudget},
                          opened.reply(), parts.start);
    parts.admission.admit(parts.start);
    ASSERT_TRUE(opened.answered());
    if (limit < all) {
      EXPECT_EQ(fault_of(opened), ErrorKind::kNeverFits);
      continue;
    }
    ASSERT_TRUE(opened.answer().ok());
    EXPECT_EQ(opened.answer()->price_bytes, all);
    const SequenceRun* run = parts.table.find(opened.answer()->sequence);
    EXPECT_EQ(run->reserved_pages, 7U);
    EXPECT_EQ(run->compaction.reserved_pages, 2U);
    EXPECT_EQ(parts.state.budget().used(), kSlotBytes + tail);
  }
}

}  // namespace
}  // namespace reprise::actors
