// Ownership and lifetime of snapshots, outdated ids, and tables of failed models.

#include "tests/actors/worker_parts.h"

namespace reprise::actors {
namespace {

TEST(StateTable, UnadoptedSnapshotIsFreedWithItsSequence) {
  WorkerParts parts;
  SequenceRun& run = parts.open(70);
  const protocol::SnapshotId kept = *parts.snapshot_of(run);
  const protocol::SnapshotId lost = *parts.snapshot_of(run);
  const auto adopted = parts.table.adopt(kept, 1 << 20);
  ASSERT_TRUE(adopted.ok());
  EXPECT_TRUE(adopted->done);
  EXPECT_EQ(adopted->adopted_bytes, kSlotBytes + 2 * kPageBytes);
  parts.table.close(run.id);
  EXPECT_NE(parts.table.find(kept), nullptr);
  EXPECT_EQ(parts.table.find(lost), nullptr);
  EXPECT_EQ(parts.state.budget().used(), kSlotBytes + 2 * kPageBytes) << "what was adopted, and no more";
  EXPECT_EQ(parts.table.drop(kept).freed_bytes, kSlotBytes + 2 * kPageBytes);
  EXPECT_EQ(parts.state.budget().used(), 0U);
}

TEST(StateTable, WhatIsGoneCannotBeAdopted) {
  WorkerParts parts;
  SequenceRun& run = parts.open(64);
  const protocol::SnapshotId snapshot = *parts.snapshot_of(run);
  parts.table.close(run.id);
  const auto adopted = parts.table.adopt(snapshot, 1 << 20);
  ASSERT_FALSE(adopted.ok());
  EXPECT_EQ(adopted.error().kind, ErrorKind::kUnknown);
}

TEST(StateTable, AdoptionBudgetCountsSharedPagesOnce) {
  WorkerParts parts;
  SequenceRun& run = parts.open(128);
  const protocol::SnapshotId first = *parts.snapshot_of(run);
  const protocol::SnapshotId second = *parts.snapshot_of(run);
  const std::uint64_t one = kSlotBytes + 2 * kPageBytes;
  const auto tight = parts.table.adopt(first, one - 1);
  ASSERT_TRUE(tight.ok());
  EXPECT_FALSE(tight->done);
  EXPECT_EQ(tight->short_bytes, 1U);
  EXPECT_TRUE(parts.table.adopt(first, one)->done);
  EXPECT_EQ(parts.table.adopt(second, one)->short_bytes, kSlotBytes) << "its pages are the first one's too";
  EXPECT_TRUE(parts.table.adopt(second, one + kSlotBytes)->done);
  EXPECT_EQ(parts.table.drop(first).freed_bytes, kSlotBytes);
  parts.table.close(run.id);
  EXPECT_EQ(parts.table.drop(second).freed_bytes, one);
}

TEST(StateTable, RawSnapshotsAreNeverAdopted) {
  WorkerParts parts;
  SequenceRun& run = parts.open(10);
  const protocol::SnapshotId raw = *parts.snapshot_of(run, Kind::kRaw);
  EXPECT_EQ(parts.table.adopt(raw, 1 << 20).error().kind, ErrorKind::kUnknown);
  parts.table.close(run.id);
  EXPECT_EQ(parts.table.find(raw), nullptr);
}

TEST(StateTable, IdsOfOtherGenerationsAreUnknown) {
  WorkerParts parts;
  SequenceRun& run = parts.open(64);
  protocol::SnapshotId snapshot = *parts.snapshot_of(run);
  protocol::SequenceId sequence = run.id;
  --snapshot.generation;
  --sequence.generation;
  EXPECT_EQ(parts.table.find(snapshot), nullptr);
  EXPECT_EQ(parts.table.find(sequence), nullptr);
  EXPECT_EQ(parts.table.drop(snapshot).freed_bytes, 0U);
  EXPECT_FALSE(parts.table.adopt(snapshot, 1 << 20).ok());
  parts.table.close(sequence);
  EXPECT_EQ(parts.table.sequences().size(), 1U);
  EXPECT_EQ(parts.table.snapshots().size(), 1U);
}

TEST(StateTable, DropsMayComeTwice) {
  WorkerParts parts;
  SequenceRun& run = parts.open(64);
  const protocol::SnapshotId snapshot = *parts.snapshot_of(run);
  ASSERT_TRUE(parts.table.adopt(snapshot, 1 << 20)->done);
  EXPECT_EQ(parts.table.drop(snapshot).freed_bytes, kSlotBytes) << "the sequence holds its page";
  const protocol::Dropped again = parts.table.drop(snapshot);
  EXPECT_EQ(again.freed_bytes, 0U);
  EXPECT_EQ(again.adopted_bytes, 0U);
}

TEST(StateTable, WhatSequencesOwnOutlivesARegistry) {
  WorkerParts parts;
  SequenceRun& run = parts.open(64);
  const protocol::SnapshotId adopted = *parts.snapshot_of(run);
  const protocol::SnapshotId owned = *parts.snapshot_of(run);
  ASSERT_TRUE(parts.table.adopt(adopted, 1 << 20)->done);
  EXPECT_EQ(parts.table.drop_adopted().adopted_bytes, 0U);
  EXPECT_EQ(parts.table.find(adopted), nullptr);
  EXPECT_NE(parts.table.find(owned), nullptr);
}

TEST(StateTable, FailedTableHoldsNothingAndClosesSequences) {
  WorkerParts parts;
  SequenceRun& computing = parts.open(64);
  ASSERT_TRUE(parts.table.adopt(*parts.snapshot_of(computing), 1 << 20)->done);
  AnswerBox<JobResult<protocol::Prefilled>> prefilled;
  protocol::Prefill job{.sequence = computing.id, .tokens = WorkerParts::prompt(100), .end = 100};
  auto reply = prefilled.reply();
  ASSERT_FALSE(begin_prefill(parts.table, computing, job, reply).has_value());
  parts.table.fail({ErrorKind::kDeviceFailed, "a test"});
  EXPECT_EQ(fault_of(prefilled), ErrorKind::kDeviceFailed);
  EXPECT_EQ(parts.state.budget().used(), 0U);
  EXPECT_EQ(parts.table.adopted_bytes(), 0U);
  EXPECT_FALSE(parts.snapshot_of(computing).has_value());
  parts.table.close(computing.id);
  EXPECT_EQ(parts.table.sequences().size(), 0U);
}

TEST(StateTable, ASequenceIsFoundByItsTicketUntilItIsClosed) {
  WorkerParts parts;
  SequenceRun& run = parts.open();
  const std::uint64_t ticket = run.ticket;
  EXPECT_EQ(parts.table.find_ticket(ticket), &run);
  EXPECT_EQ(parts.table.find_ticket(ticket + 1), nullptr);
  run.closing = true;
  EXPECT_EQ(parts.table.find_ticket(ticket), nullptr) << "it goes with its step";
  parts.table.close(run.id);
  EXPECT_EQ(parts.table.find_ticket(ticket), nullptr);
}

}  // namespace
}  // namespace reprise::actors
