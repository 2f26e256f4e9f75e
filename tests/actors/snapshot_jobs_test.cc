// Taking and restoring snapshots: waits for memory, skipped checkpoints, dropped snapshots.

#include "tests/actors/worker_parts.h"
#include "tools/reliability/state_faults.h"

namespace reprise::actors {
namespace {

class SnapshotJobsTest : public testing::Test {
 protected:
  using Taken = AnswerBox<JobResult<protocol::SnapshotTaken>>;
  using Restored = AnswerBox<JobResult<protocol::Restored>>;

  static protocol::RestoreKv restore_of(const SequenceRun& into, protocol::SnapshotId snapshot,
                                        std::uint32_t at) {
    return {.sequence = into.id, .snapshot = snapshot, .at = at, .token_hash = WorkerParts::hash_of(at)};
  }
};

TEST_F(SnapshotJobsTest, AStateIsRestoredIntoAnotherSequence) {
  WorkerParts parts;
  SequenceRun& from = parts.open(100);
  const protocol::SnapshotId snapshot = *parts.snapshot_of(from);
  SequenceRun& into = parts.open();
  Restored restored;
  parts.snapshots.restore(restore_of(into, snapshot, 100), restored.reply(), parts.start);
  ASSERT_TRUE(restored.answered() && restored.answer().ok());
  EXPECT_EQ(restored.answer()->tokens, 100U);
  EXPECT_EQ(restored.answer()->shared_bytes, kPageBytes) << "the full page; the tail was copied";
  EXPECT_EQ(into.held_tokens(), 100U);
  EXPECT_EQ(into.phase, Phase::kIdle);
}

TEST_F(SnapshotJobsTest, WhatMakesNoSenseIsRefused) {
  WorkerParts parts;
  SequenceRun& from = parts.open(100);
  SequenceRun& into = parts.open();
  const protocol::SnapshotId snapshot = *parts.snapshot_of(from);
  const auto fault = [&](protocol::RestoreKv job) {
    Restored restored;
    parts.snapshots.restore(job, restored.reply(), parts.start);
    return fault_of(restored);
  };
  EXPECT_EQ(fault(restore_of(into, snapshot, 60)), ErrorKind::kBadJob) << "a state with a slot cannot be cut";
  EXPECT_EQ(fault(restore_of(into, {.generation = 7, .number = 999}, 100)), ErrorKind::kUnknown);
  EXPECT_EQ(fault(restore_of(into, {.generation = 6, .number = snapshot.number}, 100)), ErrorKind::kUnknown);
  into.phase = Phase::kPrefill;
  EXPECT_EQ(fault(restore_of(into, snapshot, 100)), ErrorKind::kBadJob);
  into.phase = Phase::kIdle;
  protocol::RestoreKv other = restore_of(into, snapshot, 100);
  ++other.token_hash;
  EXPECT_EQ(fault(other), ErrorKind::kDamaged);
  EXPECT_EQ(parts.table.find(snapshot), nullptr) << "a snapshot of other tokens is of no use";
  EXPECT_EQ(parts.figures.damaged.load(), 1U);
}

TEST_F(SnapshotJobsTest, DamagedSnapshotIsDroppedSequenceStaysUsable) {
  WorkerParts parts;
  SequenceRun& from = parts.open(100);
  const protocol::SnapshotId snapshot = *parts.snapshot_of(from);
  gpu::damage(parts.table.store(), parts.table.find(snapshot)->state);
  SequenceRun& into = parts.open();
  Restored restored;
  parts.snapshots.restore(restore_of(into, snapshot, 100), restored.reply(), parts.start);
  EXPECT_EQ(fault_of(restored), ErrorKind::kDamaged);
  EXPECT_EQ(parts.table.find(snapshot), nullptr);
  ASSERT_TRUE(into.state.has_value());
  EXPECT_EQ(into.held_tokens(), 0U);
}

TEST_F(SnapshotJobsTest, ADamagedPageIsAMissAndNoTierReadsIt) {
  for (const std::size_t slot_bytes : {kSlotBytes, std::size_t{0}}) {
    WorkerParts parts({.slot_bytes = slot_bytes});
    SequenceRun& from = parts.open(2 * gpu::kPageTokens);
    const auto damaged = [&] {
      const protocol::SnapshotId snapshot = *parts.snapshot_of(from);
      EXPECT_TRUE(parts.table.adopt(snapshot, UINT64_MAX).ok());
      gpu::damage(parts.table.store(), parts.table.find(snapshot)->state, kPageBytes / 2);
      return snapshot;
    };
    const protocol::SnapshotId restored = damaged();
    SequenceRun& into = parts.open();
    Restored answer;
    parts.snapshots.restore(restore_of(into, restored, 2 * gpu::kPageTokens), answer.reply(), parts.start);
    EXPECT_EQ(fault_of(answer), ErrorKind::kDamaged);
    EXPECT_EQ(parts.table.find(restored), nullptr);
    const protocol::SnapshotId read = *parts.snapshot_of(from);  // its first page has the damage
    EXPECT_TRUE(parts.table.adopt(read, UINT64_MAX).ok());
    std::vector<std::byte> to(kPageBytes);
    protocol::ReadKv job{.snapshot = read, .first_page = 1, .pages = 1, .to = to};
    EXPECT_EQ(parts.snapshots.read(job).ok(), true) << "the second page is intact";
    job.first_page = 0;
    EXPECT_EQ(parts.snapshots.read(job).error().kind, ErrorKind::kDamaged);
    EXPECT_EQ(parts.table.find(read), nullptr);
    EXPECT_EQ(parts.figures.damaged.load(), 2U);
  }
}

TEST_F(SnapshotJobsTest, CanonicalSnapshotIsSkippedWithoutMemory) {
  WorkerParts parts;
  SequenceRun& run = parts.open(64);
  parts.take_all_but(kSlotBytes - 1);
  Taken taken;
  parts.snapshots.snapshot({.sequence = run.id}, taken.reply());
  EXPECT_FALSE(taken.answered()) << "the registries are asked";
  ASSERT_EQ(parts.reclaims.size(), 1U);
  EXPECT_FALSE(parts.snapshots.try_waiting(parts.start));
  parts.memory.reclaim_ended(0);
  parts.memory.begin_round();
  EXPECT_TRUE(parts.snapshots.try_waiting(parts.start));
  EXPECT_EQ(fault_of(taken), ErrorKind::kNoMemory);
  EXPECT_FALSE(parts.memory.job_is_short());
  EXPECT_EQ(parts.figures.checkpoints_skipped.load(), 1U);
}

TEST_F(SnapshotJobsTest, ARawOneWaitsUntilItsMemoryIsThere) {
  WorkerParts parts;
  SequenceRun& run = parts.open(64);
  run.snapshot_promised = true;
  parts.take_all_but(kSlotBytes - 1);
  Taken taken;
  parts.snapshots.snapshot({.sequence = run.id, .kind = Kind::kRaw}, taken.reply());
  parts.memory.reclaim_ended(0);
  EXPECT_FALSE(parts.snapshots.try_waiting(parts.start));
  EXPECT_FALSE(parts.snapshots.try_waiting(parts.start + 1h)) << "it was promised";
  EXPECT_TRUE(parts.memory.job_is_short());
  parts.state.budget().give(1);
  parts.memory.memory_changed();
  EXPECT_TRUE(parts.snapshots.try_waiting(parts.start));
  ASSERT_TRUE(taken.answered() && taken.answer().ok());
  EXPECT_FALSE(run.snapshot_promised);
}

TEST_F(SnapshotJobsTest, CanonicalRestoreWaitsAtMostPatience) {
  WorkerParts parts;
  SequenceRun& from = parts.open(100);
  const protocol::SnapshotId snapshot = *parts.snapshot_of(from);
  SequenceRun& into = parts.open();
  parts.take_all_but(kPageBytes - 1);  // the tail's page
  Restored restored;
  parts.snapshots.restore(restore_of(into, snapshot, 100), restored.reply(), parts.start);
  parts.memory.reclaim_ended(0);
  EXPECT_FALSE(parts.snapshots.try_waiting(parts.start + 1ms));
  EXPECT_FALSE(parts.snapshots.try_waiting(parts.start + 100ms)) << "since it was short first: 99 ms";
  EXPECT_TRUE(parts.snapshots.try_waiting(parts.start + 101ms));
  EXPECT_EQ(fault_of(restored), ErrorKind::kNoMemory);
  EXPECT_NE(parts.table.find(snapshot), nullptr);
}

TEST_F(SnapshotJobsTest, ASnapshotThatGoesWhileItIsWaitedForIsGone) {
  WorkerParts parts;
  SequenceRun& from = parts.open(100);
  const protocol::SnapshotId snapshot = *parts.snapshot_of(from);
  SequenceRun& into = parts.open();
  parts.take_all_but(kPageBytes - 1);
  Restored restored;
  parts.snapshots.restore(restore_of(into, snapshot, 100), restored.reply(), parts.start);
  EXPECT_FALSE(restored.answered());
  parts.table.drop(snapshot);
  EXPECT_TRUE(parts.snapshots.try_waiting(parts.start));
  EXPECT_EQ(fault_of(restored), ErrorKind::kUnknown);
}

TEST_F(SnapshotJobsTest, WhereThereIsNoSlotASnapshotCanBeCut) {
  WorkerParts parts({.slot_bytes = 0});
  SequenceRun& from = parts.open(100);
  const protocol::SnapshotId snapshot = *parts.snapshot_of(from);
  SequenceRun& into = parts.open();
  Restored restored;
  parts.snapshots.restore(restore_of(into, snapshot, 70), restored.reply(), parts.start);
  ASSERT_TRUE(restored.answered() && restored.answer().ok());
  EXPECT_EQ(into.held_tokens(), 70U);
}

TEST_F(SnapshotJobsTest, StatesThatAreNotFiniteAreNeverKept) {
  WorkerParts parts;
  SequenceRun& run = parts.open(64);
  gpu::poison(parts.table.store(), *run.state);
  Taken taken;
  parts.snapshots.snapshot({.sequence = run.id}, taken.reply());
  EXPECT_EQ(fault_of(taken), ErrorKind::kUnhealthy);
  EXPECT_EQ(parts.table.snapshots().size(), 0U);
}

/// A state in host memory, with increasing bytes.
protocol::SharedHostState host_state(std::uint32_t tokens, std::size_t bytes) {
  auto state = std::make_shared<protocol::HostState>();
  state->stored = state->logical = tokens;
  const auto memory = std::make_shared<std::vector<std::byte>>();
  for (std::size_t i = 0; i < bytes; ++i) memory->push_back(static_cast<std::byte>(i % 101));
  state->bytes = *memory;
  state->memory = memory;
  return state;
}

TEST_F(SnapshotJobsTest, AStateFromTheHostIsLoadedAndReadBackAsItWas) {
  WorkerParts parts;
  SequenceRun& run = parts.open();
  const protocol::SharedHostState state = host_state(100, 2 * kPageBytes + kSlotBytes);
  Restored loaded;
  parts.snapshots.load({.sequence = run.id, .state = state, .tokens = WorkerParts::prompt(120)},
                       loaded.reply(), parts.start);
  ASSERT_TRUE(loaded.answered() && loaded.answer().ok());
  EXPECT_EQ(run.held_tokens(), 100U);
  EXPECT_EQ(run.phase, Phase::kIdle);
  const protocol::SnapshotId snapshot = *parts.snapshot_of(run);
  std::vector<std::byte> buffer;
  const auto read = [&](std::uint32_t first, std::uint32_t pages, bool slot, std::size_t bytes) {
    buffer.assign(bytes, std::byte{0xFF});
    return parts.snapshots.read(
        {.snapshot = snapshot, .first_page = first, .pages = pages, .slot = slot, .to = buffer});
  };
  constexpr std::size_t kAll = 2 * kPageBytes + kSlotBytes;
  EXPECT_EQ(read(0, 2, true, kAll).error().kind, ErrorKind::kUnknown) << "it is its sequence's";
  ASSERT_TRUE(parts.table.adopt(snapshot, 1 << 20)->done);
  const std::vector<std::byte> all(state->bytes.begin(), state->bytes.end());
  ASSERT_TRUE(read(0, 2, true, kAll).ok());
  EXPECT_EQ(buffer, all);
  ASSERT_TRUE(read(1, 1, false, kPageBytes).ok());
  EXPECT_EQ(buffer, std::vector<std::byte>(all.begin() + kPageBytes, all.begin() + 2 * kPageBytes));
  ASSERT_TRUE(read(0, 0, true, kSlotBytes).ok());
  EXPECT_EQ(buffer, std::vector<std::byte>(all.end() - kSlotBytes, all.end()));
  EXPECT_EQ(read(1, 2, false, 2 * kPageBytes).error().kind, ErrorKind::kBadJob) << "it has fewer pages";
  for (const std::size_t bytes : {kAll - 1, kAll + 1, std::size_t{0}}) {
    EXPECT_EQ(read(0, 2, true, bytes).error().kind, ErrorKind::kBadJob) << bytes;
    EXPECT_EQ(buffer, std::vector<std::byte>(bytes, std::byte{0xFF})) << "nothing was written";
  }
}

TEST_F(SnapshotJobsTest, StateOfWrongSizeOrPositionIsNotLoaded) {
  WorkerParts parts({.rules = kGpuRules});
  SequenceRun& run = parts.open();
  const auto fault = [&](std::uint32_t tokens, std::size_t bytes, std::uint32_t prompt) {
    Restored loaded;
    parts.snapshots.load(
        {.sequence = run.id, .state = host_state(tokens, bytes), .tokens = WorkerParts::prompt(prompt)},
        loaded.reply(), parts.start);
    return fault_of(loaded);
  };
  EXPECT_EQ(fault(128, 2 * kPageBytes, 200), ErrorKind::kDamaged) << "no slot";
  EXPECT_EQ(fault(100, 2 * kPageBytes + kSlotBytes, 200), ErrorKind::kDamaged) << "not on the grid";
  EXPECT_EQ(fault(128, 2 * kPageBytes + kSlotBytes, 100), ErrorKind::kBadJob) << "more than the tokens";
  EXPECT_EQ(fault(128, 2 * kPageBytes + kSlotBytes, 200), std::nullopt);
}

TEST_F(SnapshotJobsTest, ALoadWaitsForItsMemoryAndThenGivesUp) {
  WorkerParts parts;
  SequenceRun& run = parts.open();
  parts.take_all_but(kPageBytes);
  Restored loaded;
  parts.snapshots.load({.sequence = run.id,
                        .state = host_state(100, 2 * kPageBytes + kSlotBytes),
                        .tokens = WorkerParts::prompt(120)},
                       loaded.reply(), parts.start);
  EXPECT_FALSE(loaded.answered()) << "the registries are asked";
  ASSERT_EQ(parts.reclaims.size(), 1U);
  parts.memory.reclaim_ended(0);
  EXPECT_FALSE(parts.snapshots.try_waiting(parts.start));
  EXPECT_TRUE(parts.snapshots.try_waiting(parts.start + 1s));
  EXPECT_EQ(fault_of(loaded), ErrorKind::kNoMemory);
  EXPECT_TRUE(run.state.has_value()) << "and can be computed with";
}

TEST_F(SnapshotJobsTest, CanonicalStatesStandOnTheGrid) {
  WorkerParts parts({.rules = kGpuRules});
  SequenceRun& run = parts.open(100);
  Taken off_grid;
  parts.snapshots.snapshot({.sequence = run.id}, off_grid.reply());
  EXPECT_EQ(fault_of(off_grid), ErrorKind::kBadJob);
  EXPECT_TRUE(parts.snapshot_of(run, Kind::kRaw).has_value());
  SequenceRun& on_grid = parts.open(128);
  EXPECT_TRUE(parts.snapshot_of(on_grid).has_value());
}

}  // namespace
}  // namespace reprise::actors
