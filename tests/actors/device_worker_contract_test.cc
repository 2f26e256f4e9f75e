// The device worker's contracts in protocol/jobs/.

#include "tests/actors/device_worker_harness.h"

namespace reprise::actors {
namespace {

// -- lifetimes

TEST_F(DeviceWorkerContract, ASnapshotGoesWithItsSequenceUntilItIsAdopted) {
  start();
  const Open sequence = open();
  prefill(sequence, 100);
  const protocol::SnapshotId kept = snapshot(sequence);
  const protocol::SnapshotId lost = snapshot(sequence);
  ASSERT_TRUE(ask(protocol::AdoptKvSnapshot{.snapshot = kept, .budget_bytes = 1 << 20})->done);
  close(sequence);
  EXPECT_EQ(memory().snapshots, 1U);
  const auto too_late = ask(protocol::AdoptKvSnapshot{.snapshot = lost, .budget_bytes = 1 << 20});
  ASSERT_FALSE(too_late.ok());
  EXPECT_EQ(too_late.error().kind, ErrorKind::kUnknown);
  const Open next = open();
  EXPECT_TRUE(ask(restore_of(next, kept, 100)).ok());
  EXPECT_EQ(ask(restore_of(next, lost, 100)).error().kind, ErrorKind::kUnknown);
  close(next);
  EXPECT_GT(ask(protocol::DropKvSnapshot{kept}).freed_bytes, 0U);
  EXPECT_EQ(ask(protocol::DropKvSnapshot{kept}).freed_bytes, 0U) << "a drop may come twice";
  EXPECT_EQ(memory().used_bytes, 0U);
}

TEST_F(DeviceWorkerContract, ARestoredSequenceRepliesAsAColdOneDoes) {
  start();
  const Open cold = open();
  prefill(cold, 100);
  const protocol::SnapshotId after_70 = [&] {
    const Open sequence = open();
    prefill(sequence, 70);
    return snapshot(sequence);
  }();
  const Open warm = open();
  ASSERT_TRUE(ask(restore_of(warm, after_70, 70)).ok());
  const auto prefilled = ask(prefill_of(warm, 100));
  ASSERT_TRUE(prefilled.ok());
  EXPECT_EQ(prefilled->computed, 30U);
  const TokenList expected = FakeModel::reply_to(prompt(100), 12);
  EXPECT_EQ(decode(cold, 12), expected);
  EXPECT_EQ(decode(warm, 12), expected);
}

TEST_F(DeviceWorkerContract, AfterARestoreThatFailedTheSequenceCanBeUsed) {
  start();
  const protocol::SnapshotId gone = adopted(80);
  static_cast<void>(ask(protocol::DropKvSnapshot{gone}));
  const Open sequence = open();
  EXPECT_EQ(ask(restore_of(sequence, gone, 80)).error().kind, ErrorKind::kUnknown);
  const protocol::SnapshotId damaged = adopted(80);
  faults_->inject({.kind = Fault::Kind::kDamage});
  close(open());  // a round, in which it happens
  EXPECT_EQ(ask(restore_of(sequence, damaged, 80)).error().kind, ErrorKind::kDamaged);
  EXPECT_EQ(ask(restore_of(sequence, damaged, 80)).error().kind, ErrorKind::kUnknown)
      << "it has been dropped";
  prefill(sequence, 90);
  EXPECT_EQ(decode(sequence, 5), FakeModel::reply_to(prompt(90), 5));
}

TEST_F(DeviceWorkerContract, RawSnapshotIsNotAdoptedAndEndsWithSequence) {
  start();
  const Open sequence = open();
  prefill(sequence, 50);
  const protocol::SnapshotId raw = snapshot(sequence, Kind::kRaw);
  EXPECT_FALSE(ask(protocol::AdoptKvSnapshot{.snapshot = raw, .budget_bytes = 1 << 20}).ok());
  const Open other = open();
  ASSERT_TRUE(ask(restore_of(other, raw, 50)).ok());
  EXPECT_EQ(decode(other, 6), FakeModel::reply_to(prompt(50), 6)) << "from the prompt's logits";
  close(sequence);
  EXPECT_EQ(memory().snapshots, 0U);
}

TEST_F(DeviceWorkerContract, DropAdoptedKeepsSnapshotsOfSequences) {
  start();
  adopted(64);
  const Open sequence = open();
  prefill(sequence, 100);
  const protocol::SnapshotId owned = snapshot(sequence);
  EXPECT_GT(ask(protocol::DropAdopted{arch_}).freed_bytes, 0U);
  EXPECT_EQ(memory().adopted_bytes, 0U);
  EXPECT_EQ(memory().snapshots, 1U);
  EXPECT_TRUE(ask(protocol::AdoptKvSnapshot{.snapshot = owned, .budget_bytes = 1 << 20})->done);
}

TEST_F(DeviceWorkerContract, RefusedAdoptionReportsTheMissingBytes) {
  start();
  const Open sequence = open();
  prefill(sequence, 64);
  const protocol::SnapshotId id = snapshot(sequence);
  const auto tight = ask(protocol::AdoptKvSnapshot{.snapshot = id, .budget_bytes = kSlot + kPage - 10});
  ASSERT_TRUE(tight.ok());
  EXPECT_FALSE(tight->done);
  EXPECT_EQ(tight->short_bytes, 10U);
  EXPECT_EQ(memory().adopted_bytes, 0U);
}

// -- generations

TEST_F(DeviceWorkerContract, LoadingAModelDoesNotBlockOthers) {
  start();
  control_->hold_loads = true;
  auto second = ask_meanwhile(protocol::LoadArch{.path = "none"});
  ASSERT_TRUE(eventually([&] { return control_->loads == 2; }));
  // The load is running, and the first model continues to compute.
  const Open sequence = open();
  prefill(sequence, 100);
  EXPECT_EQ(decode(sequence, 5), FakeModel::reply_to(prompt(100), 5));
  auto third = ask_meanwhile(protocol::LoadArch{.path = "none"});
  close(sequence);
  control_->hold_loads = false;
  const auto two = second.get();
  const auto three = third.get();
  ASSERT_TRUE(two.ok() && three.ok());
  EXPECT_NE(two->arch.generation, three->arch.generation);
  EXPECT_NE(two->arch.generation, arch_.generation);
  EXPECT_EQ(control_->loads, 3U);
  // A failed load is reported, and the next one succeeds.
  control_->refuse_to_load = true;
  EXPECT_FALSE(ask(protocol::LoadArch{.path = "none"}).ok());
  control_->refuse_to_load = false;
  EXPECT_TRUE(ask(protocol::LoadArch{.path = "none"}).ok());
}

TEST_F(DeviceWorkerContract, DropArchEndsAllIdsOfItsGeneration) {
  start();
  const protocol::SnapshotId snapshot = adopted(64);
  const Open sequence = open();
  const protocol::ArchId old = arch_;
  const auto dropped = ask(protocol::DropArch{old});
  EXPECT_EQ(dropped.sequences, 1U);
  EXPECT_EQ(dropped.snapshots, 1U);
  EXPECT_EQ(dropped.freed_bytes, 2 * kSlot + kPage);
  EXPECT_EQ(memory().used_bytes, 0U);
  EXPECT_EQ(ask(protocol::DropArch{old}).sequences, 0U) << "it may come twice";
  arch_ = load();
  EXPECT_NE(arch_.generation, old.generation);
  const Open fresh = open();
  EXPECT_EQ(ask(prefill_of(sequence, 10)).error().kind, ErrorKind::kUnknown);
  EXPECT_EQ(ask(protocol::SnapshotKv{.sequence = sequence.id}).error().kind, ErrorKind::kUnknown);
  EXPECT_EQ(ask(restore_of(fresh, snapshot, 64)).error().kind, ErrorKind::kUnknown);
  EXPECT_FALSE(ask(protocol::AdoptKvSnapshot{.snapshot = snapshot, .budget_bytes = 1 << 20}).ok());
  EXPECT_EQ(ask(protocol::DropKvSnapshot{snapshot}).freed_bytes, 0U);
  EXPECT_FALSE(ask(protocol::AddCheckpoint{.sequence = sequence.id, .at = 5}));
  worker_.tell(protocol::CloseSequence{old, sequence.ticket});
  EXPECT_EQ(memory().sequences, 1U) << "a close of the past closes nothing of today";
}

TEST_F(DeviceWorkerContract, UnloadingAnswersWaitingRequests) {
  start(kSlot + kPage);
  open(64);
  auto waiting = ask_meanwhile(open_job(64));
  ASSERT_TRUE(eventually([&] { return memory().waiting == 1; }));
  static_cast<void>(ask(protocol::DropArch{arch_}));
  EXPECT_EQ(waiting.get().error().kind, ErrorKind::kUnknown);
}

// -- faults

TEST_F(DeviceWorkerContract, FailedStepFailsAllJobsButAnswersDrops) {
  start();
  const protocol::SnapshotId before = adopted(64);
  const Open bystander = open();
  prefill(bystander, 40);
  const Open sequence = open();
  faults_->inject({.kind = Fault::Kind::kFailedStep});
  EXPECT_EQ(ask(prefill_of(sequence, 10)).error().kind, ErrorKind::kDeviceFailed);
  EXPECT_TRUE(eventually([&] { return notes_->failures == 1; })) << "the supervisor is told";
  EXPECT_EQ(memory().used_bytes, 0U) << "states and snapshots have gone";
  EXPECT_EQ(ask(protocol::SnapshotKv{.sequence = bystander.id}).error().kind, ErrorKind::kDeviceFailed);
  EXPECT_EQ(ask(restore_of(bystander, before, 64)).error().kind, ErrorKind::kDeviceFailed);
  EXPECT_TRUE(decode(bystander, 4).empty());
  EXPECT_EQ(ask(open_job(10)).error().kind, ErrorKind::kDeviceFailed);
  EXPECT_EQ(ask(protocol::DropKvSnapshot{before}).freed_bytes, 0U);
  EXPECT_EQ(ask(protocol::DropAdopted{arch_}).adopted_bytes, 0U);
  close(bystander);
  close(sequence);
  EXPECT_EQ(memory().sequences, 0U);
  static_cast<void>(ask(protocol::DropArch{arch_}));
  arch_ = load();
  const Open again = open();
  prefill(again, 64);
  EXPECT_EQ(decode(again, 3), FakeModel::reply_to(prompt(64), 3));
}

// -- checkpoints

TEST_F(DeviceWorkerContract, CheckpointsAreReportedInOrderWithTheirPlan) {
  start();
  const Open sequence = open();
  const auto prefilled = ask(prefill_of(sequence, 120, {30, 64, 120}));
  ASSERT_TRUE(prefilled.ok());
  EXPECT_EQ(prefilled->reported, 3U);
  ASSERT_TRUE(eventually([&] { return reported().size() == 3; }));
  const auto reports = reported();
  EXPECT_EQ(reports[0].at, 30U);
  EXPECT_EQ(reports[1].at, 64U);
  EXPECT_EQ(reports[2].at, 120U);
  for (const protocol::CheckpointTaken& report : reports) {
    EXPECT_EQ(report.sequence, sequence.id);
    EXPECT_EQ(report.plan->flight, 77U);
    EXPECT_EQ(*report.tokens, prompt(120));
    ASSERT_TRUE(report.snapshot.has_value());
    EXPECT_TRUE(
        ask(protocol::AdoptKvSnapshot{.snapshot = report.snapshot->snapshot, .budget_bytes = 1 << 20})->done);
  }
  close(sequence);
  const Open next = open();
  EXPECT_TRUE(ask(restore_of(next, reports[0].snapshot->snapshot, 30)).ok());
}

TEST_F(DeviceWorkerContract, CheckpointAfterReplyHasAllItsTokens) {
  start();
  const Open sequence = open();
  prefill(sequence, 20);
  const TokenList reply = decode(sequence, 5);
  auto plan = std::make_shared<protocol::CheckpointPlan>();
  plan->origin_elsewhere = protocol::Origin::kTurnEnd;
  const auto taken =
      ask(protocol::SnapshotKv{.sequence = sequence.id, .kind = Kind::kCanonical, .plan = plan});
  ASSERT_TRUE(taken.ok());
  EXPECT_TRUE(taken->reported);
  EXPECT_EQ(taken->tokens, 24U) << "all but the last token of the reply";
  ASSERT_TRUE(eventually([&] { return reported().size() == 1; }));
  TokenList tokens = prompt(20);
  tokens.insert(tokens.end(), reply.begin(), reply.end() - 1);
  EXPECT_EQ(*reported()[0].tokens, tokens);
}

TEST_F(DeviceWorkerContract, TheFirstCallOfAReplyHasACheckpointBeforeIt) {
  start();
  const Open other = open();
  prefill(other, 20);
  const TokenList reply = decode(other, 6);
  close(other);
  const Open sequence = open();
  prefill(sequence, 20);
  auto plan = std::make_shared<protocol::CheckpointPlan>();
  plan->origin_elsewhere = protocol::Origin::kCall;
  ASSERT_EQ(decode(sequence, 6, plan, reply[3]), reply);
  const auto before =
      static_cast<std::size_t>(std::find(reply.begin() + 1, reply.end(), reply[3]) - reply.begin());
  ASSERT_TRUE(eventually([&] { return reported().size() == 1; }));
  EXPECT_EQ(reported()[0].at, 20U + before);
  TokenList tokens = prompt(20);
  tokens.insert(tokens.end(), reply.begin(), reply.begin() + static_cast<std::ptrdiff_t>(before));
  EXPECT_EQ(*reported()[0].tokens, tokens);
}

TEST_F(DeviceWorkerContract, CheckpointCanBeAddedUntilPrefillHasPassedIt) {
  start();
  const Open sequence = open();
  EXPECT_TRUE(ask(protocol::AddCheckpoint{.sequence = sequence.id, .at = 50}))
      << "it may overtake the prefill";
  const auto prefilled = ask(prefill_of(sequence, 100, {90}));
  EXPECT_EQ(prefilled->reported, 2U);
  EXPECT_FALSE(ask(protocol::AddCheckpoint{.sequence = sequence.id, .at = 60}));
}

// -- memory

TEST_F(DeviceWorkerContract, FullMemoryIsReclaimedOnceUntilMoreIsOffered) {
  start(3 * kSlot + 2 * kPage, 10s);
  const protocol::SnapshotId leased = adopted(64);
  const Open holder = open(64);
  prefill(holder, 64);
  auto waiting = ask_meanwhile(open_job(64));
  ASSERT_TRUE(eventually([&] { return notes_->reclaims >= 1; }));
  ASSERT_TRUE(eventually_idle(system_));
  EXPECT_EQ(notes_->reclaims, 1U) << "nothing has changed, so nobody is asked again";
  EXPECT_EQ(memory().waiting, 1U);
  give(leased);  // its lease has ended
  worker_.tell(protocol::MoreToReclaim{arch_});
  EXPECT_TRUE(waiting.get().ok());
  EXPECT_EQ(notes_->reclaims, 2U);
}

TEST_F(DeviceWorkerContract, ClosingASequenceAdmitsAWaitingRequest) {
  start(kSlot + kPage, 10s);
  const Open holder = open(64);
  auto waiting = ask_meanwhile(open_job(64));
  ASSERT_TRUE(eventually([&] { return memory().waiting == 1; }));
  close(holder);
  EXPECT_TRUE(waiting.get().ok());
}

TEST_F(DeviceWorkerContract, WaitForMemoryFailsAfterPatience) {
  start(2 * kSlot + kPage, 200ms);
  const protocol::SnapshotId leased = adopted(64);
  auto lonely = ask_meanwhile(open_job(64));
  EXPECT_EQ(lonely.get().error().kind, ErrorKind::kNoMemory) << "it would wait for a lease for ever";
  static_cast<void>(ask(protocol::DropKvSnapshot{leased}));
  EXPECT_TRUE(ask(open_job(64)).ok());
}

TEST_F(DeviceWorkerContract, CheckpointWithoutMemoryIsSkippedAndReported) {
  start(kSlot + 2 * kPage);
  const Open sequence = open(128);
  const auto prefilled = ask(prefill_of(sequence, 100, {40}));
  ASSERT_TRUE(prefilled.ok());
  EXPECT_EQ(prefilled->reported, 1U);
  ASSERT_TRUE(eventually([&] { return reported().size() == 1; }));
  EXPECT_FALSE(reported()[0].snapshot.has_value());
  EXPECT_TRUE(reported()[0].healthy);
}

// -- cancellation, in each phase

TEST_F(DeviceWorkerContract, AWaitForASequenceEndsWithItsTicket) {
  start(kSlot + kPage, 10s);
  const Open holder = open(64);
  const protocol::OpenSequence job = open_job(64);
  auto waiting = std::async(std::launch::async, [&] { return worker_.ask_blocking(job, 30s); });
  ASSERT_TRUE(eventually([&] { return memory().waiting == 1; }));
  worker_.tell(protocol::CloseSequence{arch_, job.ticket});
  EXPECT_FALSE(waiting.get().ok());
  close(holder);
  EXPECT_EQ(memory().sequences, 0U);
  EXPECT_EQ(memory().waiting, 0U);
}

// Tokens: enough steps for a message to arrive between them, however short they are.
constexpr std::uint32_t kLong = 60'000;

TEST_F(DeviceWorkerContract, ACanceledPrefillLeavesASequenceThatGoesOn) {
  start();
  const Open sequence = open(kLong);
  control_->hold();
  auto prefilling = ask_meanwhile(prefill_of(sequence, kLong, {kLong / 2}));
  ASSERT_TRUE(eventually([&] { return control_->steps() > 0; }));
  worker_.tell(protocol::Cancel{sequence.id});
  control_->release();
  EXPECT_EQ(prefilling.get().error().kind, ErrorKind::kCanceled);
  const auto on = ask(prefill_of(sequence, kLong));
  ASSERT_TRUE(on.ok()) << on.error().message;
  EXPECT_LT(on->computed, kLong) << "from where it stood";
  EXPECT_EQ(decode(sequence, 4), FakeModel::reply_to(prompt(kLong), 4));
}

// Counts steps, not time: the newcomer waits only for the running step, which has few tokens.
TEST_F(DeviceWorkerContract, AStrangerWaitsForOneStepOfIdleWorkAtMost) {
  constexpr std::size_t kIdleTokens = 4;  // take the CPU about as long as one
  start();
  protocol::OpenSequence for_later = open_job(kLong);
  for_later.priority = protocol::Priority::kIdle;
  const auto opened = ask(for_later);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const Open idle{opened->sequence, ticket_};
  control_->hold();
  auto prefilling = ask_meanwhile(prefill_of(idle, kLong));
  // An actor takes several short turns before it checks its mailbox; steps of real models are long. At least
  // 1 ms makes these long.
  const auto let_long_step_go = [&] {
    std::this_thread::sleep_for(1ms);
    control_->let_one_go();
  };
  for (std::uint32_t begun = 1; begun <= 10; ++begun) {
    ASSERT_TRUE(eventually([&] { return control_->steps() == begun; }));
    if (begun < 10) let_long_step_go();
  }
  for (std::uint32_t stranger = 0; stranger < 20; ++stranger) {
    const std::uint32_t tokens = 20 + stranger;
    const std::uint32_t under_way = control_->steps();
    const Asked<protocol::OpenSequence> opening = post(open_job(tokens));
    let_long_step_go();
    const auto opened_too = opening.get();
    ASSERT_TRUE(opened_too.ok());
    const Open sequence{opened_too->sequence, ticket_};
    for (int asks = 0; asks < 3; ++asks) {  // as a request asks its registry, and this worker for a restore
      ASSERT_EQ(control_->steps(), under_way) << "idle work slipped in";
      memory();
    }
    worker_.tell(prefill_of(sequence, tokens));
    ASSERT_TRUE(eventually([&] { return control_->steps() == under_way + 1; }));
    control_->let_one_go();
    ASSERT_TRUE(eventually([&] { return control_->steps() == under_way + 2; }));
    const auto steps = control_->recorded();
    EXPECT_EQ(steps[under_way - 1], std::vector{kIdleTokens}) << "what it had to wait for";
    EXPECT_EQ(steps[under_way], std::vector<std::size_t>{tokens}) << "all of it, and nothing else beside it";
    EXPECT_EQ(steps[under_way + 1], std::vector{kIdleTokens}) << "and only then the idle work goes on";
    close(sequence);
  }
  worker_.tell(protocol::Cancel{idle.id});
  control_->release();
  EXPECT_EQ(prefilling.get().error().kind, ErrorKind::kCanceled);
}

TEST_F(DeviceWorkerContract, ACanceledDecodingEndsItsStream) {
  start();
  const Open sequence = open();
  prefill(sequence, 30);
  auto [writer, reader] = runtime::make_stream<protocol::DecodeEvent>(4);
  protocol::Decode job{.sequence = sequence.id, .max_tokens = 1000, .out = std::move(writer)};
  job.sampling.temperature = 0;
  worker_.tell(std::move(job));
  ASSERT_TRUE(reader.next_blocking(runtime::deadline_after(20s)).ok());
  worker_.tell(protocol::Cancel{sequence.id});
  EXPECT_EQ(memory().sequences, 1U);  // it has noticed by now
  std::size_t more = 0;
  for (;; ++more) {
    const auto event = reader.next_blocking(runtime::deadline_after(20s));
    if (!event.ok() || event->end) break;
  }
  EXPECT_LE(more, 5U) << "what the stream had room for";
}

TEST_F(DeviceWorkerContract, ClosingDuringAStepTakesEffectAtItsEnd) {
  start();
  const Open sequence = open(kLong);
  control_->hold();
  auto prefilling = ask_meanwhile(prefill_of(sequence, kLong));
  ASSERT_TRUE(eventually([&] { return control_->steps() > 0; }));
  close(sequence);
  control_->release();
  EXPECT_EQ(prefilling.get().error().kind, ErrorKind::kCanceled);
  EXPECT_EQ(memory().sequences, 0U);
  EXPECT_EQ(memory().used_bytes, 0U);
}

/// A worker whose mailbox has space for one message; questions wait for it.
class NarrowWorker : public DeviceWorker {
 public:
  static constexpr runtime::MailboxSpec kMailbox{.capacity = 1, .overload = runtime::Overload::kSuspend};
  using DeviceWorker::DeviceWorker;
};

TEST_F(DeviceWorkerContract, FullMailboxAcceptsCloseSequence) {
  start<NarrowWorker>();
  const Open one = open(kLong);
  const Open other = open();
  control_->hold();
  auto prefilling = ask_meanwhile(prefill_of(one, kLong));
  ASSERT_TRUE(eventually([&] { return control_->steps() > 0; }));  // on the worker's thread
  const protocol::AttachRegistry filler{.arch = arch_, .registry = registry_};
  EXPECT_EQ(worker_.tell(protocol::AttachRegistry(filler)), runtime::SendStatus::kSent);
  EXPECT_EQ(worker_.tell(protocol::AttachRegistry(filler)), runtime::SendStatus::kMailboxFull);
  for (const Open& sequence : {one, other}) {
    EXPECT_EQ(worker_.tell(protocol::CloseSequence{arch_, sequence.ticket}), runtime::SendStatus::kSent);
  }
  control_->release();
  EXPECT_EQ(prefilling.get().error().kind, ErrorKind::kCanceled);
  EXPECT_EQ(memory().sequences, 0U);
  EXPECT_EQ(memory().used_bytes, 0U);
}

TEST_F(DeviceWorkerContract, AReaderThatGoesEndsItsDecoding) {
  start();
  const Open sequence = open();
  prefill(sequence, 30);
  {
    auto [writer, reader] = runtime::make_stream<protocol::DecodeEvent>(4);
    protocol::Decode job{.sequence = sequence.id, .max_tokens = 100'000, .out = std::move(writer)};
    job.sampling.temperature = 0;
    worker_.tell(std::move(job));
    ASSERT_TRUE(reader.next_blocking(runtime::deadline_after(20s)).ok());
  }
  // When idle again, it can be restored into or closed.
  const protocol::SnapshotId snapshot = adopted(64);
  EXPECT_TRUE(eventually([&] { return ask(restore_of(sequence, snapshot, 64)).ok(); }));
}

}  // namespace
}  // namespace reprise::actors
