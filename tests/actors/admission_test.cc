// Admission of sequences: costs, promises, shares and overtaking.

#include "tests/actors/worker_parts.h"

namespace reprise::actors {
namespace {

using protocol::OpenSequence;
using protocol::Priority;

/// A client that asks for a sequence.
struct Client {
  AnswerBox<JobResult<protocol::Opened>> opened;
  bool admitted() const { return opened.answered() && opened.answer().ok(); }
};

class AdmissionTest : public testing::Test {
 protected:
  std::unique_ptr<Client> ask(WorkerParts& parts, OpenSequence job) {
    auto client = std::make_unique<Client>();
    job.arch = {.generation = 7, .number = 7};
    if (job.ticket == 0) job.ticket = ++tickets_;
    parts.admission.apply(job, client->opened.reply(), parts.start);
    return client;
  }
  void close(WorkerParts& parts, const Client& client) {
    parts.table.close(client.opened.answer()->sequence);
    parts.memory.memory_changed();
  }

 private:
  std::uint64_t tickets_ = 100;
};

constexpr std::uint64_t kOne = kSlotBytes + kPageBytes;  // a sequence of one page

TEST_F(AdmissionTest, ImpossibleRequestsAreRefusedAtOnce) {
  WorkerParts parts({.limit = 10 * kOne, .admission = {.waiting = 1}});
  const auto too_long = ask(parts, {.prompt_tokens = 100'000});
  EXPECT_EQ(fault_of(too_long->opened), ErrorKind::kNeverFits);
  const auto beyond_share = ask(parts, {.prompt_tokens = 64, .tenant = 3, .tenant_share = 0.05});
  ASSERT_EQ(fault_of(beyond_share->opened), ErrorKind::kNeverFits);
  EXPECT_NE(beyond_share->opened.answer().error().message.find("share of its tenant"), std::string::npos);
  const auto first = ask(parts, {.prompt_tokens = 64});
  const auto second = ask(parts, {.prompt_tokens = 64});
  EXPECT_FALSE(first->opened.answered());
  EXPECT_EQ(fault_of(second->opened), ErrorKind::kBusy);
  Client unknown;
  parts.admission.apply({.arch = {.generation = 6, .number = 6}, .ticket = 1}, unknown.opened.reply(),
                        parts.start);
  EXPECT_EQ(fault_of(unknown.opened), ErrorKind::kUnknown);
  parts.table.fail({ErrorKind::kDeviceFailed, "a test"});
  EXPECT_EQ(fault_of(ask(parts, {.prompt_tokens = 64})->opened), ErrorKind::kDeviceFailed);
}

TEST_F(AdmissionTest, ReservationsOfOthersAreNotAdmittedInto) {
  WorkerParts parts({.limit = 3 * kOne});
  const auto first = ask(parts, {.prompt_tokens = 128});  // holds its slot, and is promised two pages
  parts.admission.admit(parts.start);
  ASSERT_TRUE(first->admitted());
  EXPECT_EQ(parts.state.promised_bytes(), 2 * kPageBytes);
  const auto second = ask(parts, {.prompt_tokens = 64, .max_tokens = 64});
  parts.admission.admit(parts.start);
  ASSERT_FALSE(second->admitted());
  EXPECT_EQ(parts.reclaims.size(), 1U) << "it looked for room";
  parts.memory.reclaim_ended(0);
  parts.admission.admit(parts.start);
  EXPECT_FALSE(second->opened.answered());
  EXPECT_TRUE(parts.memory.job_is_short());
  close(parts, *first);
  parts.admission.admit(parts.start);
  EXPECT_TRUE(second->admitted());
}

TEST_F(AdmissionTest, RawSnapshotAfterPromptIsPartOfTheCost) {
  WorkerParts parts;
  const auto client = ask(parts, {.prompt_tokens = 64, .keeps_prompt = true});
  parts.admission.admit(parts.start);
  ASSERT_TRUE(client->admitted());
  EXPECT_EQ(client->opened.answer()->price_bytes, kOne + kSlotBytes + kPageBytes);
  EXPECT_EQ(parts.state.promised_bytes(), kPageBytes + kSlotBytes + kPageBytes);
}

TEST_F(AdmissionTest, UnfittingRequestIsPassedABoundedNumberOfTimes) {
  WorkerParts parts({.limit = 8 * kOne});
  const auto holder = ask(parts, {.prompt_tokens = 64});
  parts.admission.admit(parts.start);
  ASSERT_TRUE(holder->admitted());
  const auto large = ask(parts, {.prompt_tokens = 11 * 64});  // fits only an empty device
  ASSERT_FALSE(large->opened.answered());
  for (std::uint32_t i = 0; i < Admission::kMaxPasses; ++i) {
    const auto small = ask(parts, {.prompt_tokens = 64});
    parts.admission.admit(parts.start);
    if (parts.memory.reclaiming()) parts.memory.reclaim_ended(0);
    parts.admission.admit(parts.start);
    ASSERT_TRUE(small->admitted()) << i;
    close(parts, *small);
  }
  const auto late = ask(parts, {.prompt_tokens = 64});
  parts.admission.admit(parts.start);
  if (parts.memory.reclaiming()) parts.memory.reclaim_ended(0);
  parts.admission.admit(parts.start);
  EXPECT_FALSE(late->admitted()) << "the large one's turn has come";
  close(parts, *holder);
  parts.admission.admit(parts.start);
  EXPECT_TRUE(large->admitted());
}

TEST_F(AdmissionTest, ATenantAtItsShareHoldsUpNobodyElse) {
  WorkerParts parts({.limit = 20 * kOne});
  const auto first = ask(parts, {.prompt_tokens = 64, .tenant = 1, .tenant_share = 0.15});
  const auto second = ask(parts, {.prompt_tokens = 64, .tenant = 1, .tenant_share = 0.15});
  const auto third = ask(parts, {.prompt_tokens = 128, .tenant = 1, .tenant_share = 0.15});
  const auto other = ask(parts, {.prompt_tokens = 64, .tenant = 2});
  parts.admission.admit(parts.start);
  EXPECT_TRUE(first->admitted() && second->admitted() && other->admitted());
  EXPECT_FALSE(third->opened.answered());
  EXPECT_TRUE(parts.reclaims.empty()) << "that is its tenant's own affair";
  close(parts, *first);
  parts.admission.admit(parts.start);
  EXPECT_TRUE(third->admitted());
}

TEST_F(AdmissionTest, RequestsPreemptIdleWorkButNotViceVersa) {
  WorkerParts parts({.limit = kOne});
  SequenceRun& idle = parts.decoding_run(64);
  idle.priority = Priority::kIdle;
  const auto more_idle = ask(parts, {.prompt_tokens = 64, .priority = Priority::kIdle});
  parts.admission.admit(parts.start);
  parts.memory.reclaim_ended(0);
  parts.admission.admit(parts.start);
  EXPECT_FALSE(more_idle->opened.answered());
  EXPECT_TRUE(idle.state.has_value());
  const auto request = ask(parts, {.prompt_tokens = 64});
  parts.admission.admit(parts.start);
  EXPECT_TRUE(request->admitted());
  EXPECT_FALSE(idle.state.has_value());
}

TEST_F(AdmissionTest, WithdrawnAndRefusedRequestsStopWaiting) {
  WorkerParts parts({.limit = kOne});
  const auto holder = ask(parts, {.prompt_tokens = 64});
  parts.admission.admit(parts.start);
  const auto withdrawn = ask(parts, {.ticket = 50, .prompt_tokens = 64});
  auto unwanted = ask(parts, {.prompt_tokens = 64});
  const auto refused = ask(parts, {.prompt_tokens = 64});
  parts.admission.withdraw({.generation = 7, .number = 7}, 50);
  unwanted.reset();
  EXPECT_EQ(parts.admission.waiting(), 2U);
  parts.admission.admit(parts.start);
  EXPECT_EQ(parts.admission.waiting(), 1U) << "nobody reads the other's answer";
  parts.admission.refuse_all(6, {ErrorKind::kUnknown, "another model's end"});
  EXPECT_FALSE(refused->opened.answered());
  parts.admission.refuse_all(7, {ErrorKind::kUnknown, "unloaded"});
  EXPECT_EQ(fault_of(refused->opened), ErrorKind::kUnknown);
  EXPECT_EQ(parts.admission.waiting(), 0U);
}

TEST_F(AdmissionTest, ThePreemptedComeBackBeforeAnybodyNew) {
  WorkerParts parts({.limit = 2 * kOne});
  SequenceRun& away = parts.decoding_run(64);
  SequenceRun older;
  older.order = 0;
  ASSERT_TRUE(parts.memory.preempt_for(&older));
  parts.take_all_but(kOne);
  const auto fresh = ask(parts, {.prompt_tokens = 32});
  parts.admission.admit(parts.start);
  if (parts.memory.reclaiming()) parts.memory.reclaim_ended(0);
  parts.admission.admit(parts.start);
  EXPECT_FALSE(fresh->admitted()) << "it would fit, but " << away.settled() << " tokens wait to come back";
}

}  // namespace
}  // namespace reprise::actors
