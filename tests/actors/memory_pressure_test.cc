// Rising memory use: hysteresis of the mark, reclaims ahead of need, skipped checkpoints, and the number of waiting
// requests.

#include "actors/device/memory_reclaimer.h"
#include "tests/actors/worker_parts.h"

namespace reprise::actors {
namespace {

using protocol::Origin;

constexpr std::uint64_t kSequenceBytes = kSlotBytes + 2 * kPageBytes;  // a sequence of two pages
constexpr std::uint32_t kSequenceTokens = 2 * gpu::kPageTokens;

TEST(MemoryPressure, TurnsOffFivePointsBelowTheMark) {
  MemoryPressure pressure(70);
  const auto see = [&](std::uint64_t load) {
    pressure.see(load, 1000);
    return pressure.choosy();
  };
  EXPECT_FALSE(see(700));
  EXPECT_TRUE(see(701));
  EXPECT_TRUE(see(651));
  EXPECT_FALSE(see(650));
  EXPECT_FALSE(see(690));
  EXPECT_TRUE(see(851));
}

TEST(MemoryPressure, AMarkOfAHundredIsNeverReached) {
  MemoryPressure pressure(100);
  pressure.see(2000, 1000);
  EXPECT_FALSE(pressure.choosy());
  MemoryPressure nothing(MemoryRules{}.choosy_percent);
  nothing.see(1, 0);
  EXPECT_FALSE(nothing.choosy()) << "no model is loaded";
}

TEST(MemoryPressure, RelieveStartsOneReclaimAtATime) {
  WorkerParts parts({.limit = 64 * kSequenceBytes});
  parts.open(kSequenceTokens);
  parts.take_all_but(kSequenceBytes);
  parts.memory.relieve();
  EXPECT_TRUE(parts.ahead_of_need.empty()) << "one more may come, and there is room for it";
  ASSERT_TRUE(parts.state.budget().take(10));
  parts.memory.relieve();
  parts.memory.relieve();
  EXPECT_EQ(parts.ahead_of_need, std::vector<std::uint64_t>{10}) << "what it lacks, once";
  EXPECT_EQ(parts.figures.reclaims_ahead.load(), 1U);
  EXPECT_EQ(parts.figures.reclaims.load(), 0U);
  parts.state.budget().give(10);
  parts.memory.reclaim_ended(10);
  parts.memory.relieve();
  EXPECT_EQ(parts.ahead_of_need.size(), 1U);
}

TEST(MemoryPressure, FruitlessRelieveIsNotRepeatedButNeedsReclaim) {
  WorkerParts parts({.limit = 64 * kSequenceBytes});
  parts.open(kSequenceTokens);
  parts.take_all_but(100);
  parts.memory.relieve();
  parts.memory.reclaim_ended(0);
  parts.memory.relieve();
  EXPECT_EQ(parts.ahead_of_need.size(), 1U);
  EXPECT_EQ(parts.memory.find({.bytes = 200, .block = 200}), Availability::kComing)
      << "the registry may have kept what it gives to the needy";
  EXPECT_EQ(parts.reclaims, std::vector<std::uint64_t>{100});
  parts.memory.reclaim_ended(0);
  parts.memory.memory_changed();
  parts.memory.relieve();
  EXPECT_EQ(parts.ahead_of_need.size(), 2U);
}

/// Returns the bytes reclaimed ahead of need in memory for that many sequences, after four were open at once
/// and have ended, while memory for one is free.
std::vector<std::uint64_t> reclaimed_after_four_ended(std::uint64_t sequences,
                                                      const MemoryRules& rules = {}) {
  WorkerParts parts({.limit = sequences * kSequenceBytes, .memory = rules});
  std::vector<protocol::SequenceId> open;
  for (int i = 0; i < 4; ++i) open.push_back(parts.open(kSequenceTokens).id);
  parts.take_all_but(kSequenceBytes);
  parts.memory.relieve();
  EXPECT_TRUE(parts.ahead_of_need.empty()) << "one more may come";
  for (const protocol::SequenceId id : open) parts.table.close(id);
  EXPECT_TRUE(parts.state.budget().take(4 * kSequenceBytes));  // held by their snapshots
  parts.memory.relieve();
  return parts.ahead_of_need;
}

TEST(MemoryPressure, RelieveExpectsAsManySequencesAsWereOpen) {
  EXPECT_EQ(reclaimed_after_four_ended(96), std::vector<std::uint64_t>{4 * kSequenceBytes})
      << "four may come, and one more before the first has gone";
}

TEST(MemoryPressure, InASmallMemoryNothingGoesAheadOfNeed) {
  EXPECT_EQ(reclaimed_after_four_ended(16 * 5).size(), 1U) << "five are a sixteenth of it";
  EXPECT_TRUE(reclaimed_after_four_ended(16 * 5 - 1).empty());
  EXPECT_TRUE(reclaimed_after_four_ended(20).empty());
}

TEST(MemoryPressure, NothingGoesAheadOfNeedWhereThatIsTurnedOff) {
  EXPECT_TRUE(reclaimed_after_four_ended(96, {.evicts_ahead = false}).empty());
}

/// Returns the bytes reclaimed ahead of need while four sequences are open that arrived `apart`, and memory
/// for three is free.
std::vector<std::uint64_t> reclaimed_for_four_arrivals(std::chrono::milliseconds apart) {
  WorkerParts parts({.limit = 96 * kSequenceBytes});
  AnswerBox<JobResult<protocol::Opened>> opened[4];
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto now = parts.start + i * apart;
    parts.admission.apply({.arch = parts.table.id(),
                           .ticket = 100 + i,
                           .prompt_tokens = 2 * gpu::kPageTokens - 4,
                           .max_tokens = 4},
                          opened[i].reply(), now);
    parts.admission.admit(now);
    EXPECT_TRUE(opened[i].answered() && opened[i].answer().ok());
  }
  parts.take_all_but(3 * kSequenceBytes + parts.state.promised_bytes());
  parts.memory.relieve();
  return parts.ahead_of_need;
}

TEST(MemoryPressure, RelieveExpectsAsManyAsArrivedTogether) {
  EXPECT_EQ(reclaimed_for_four_arrivals(0ms), std::vector<std::uint64_t>{kSequenceBytes})
      << "those four may come back together, before any room comes free";
  EXPECT_TRUE(reclaimed_for_four_arrivals(10s).empty()) << "one may come, and there is room for it";
}

TEST(RecentDemand, AdmissionsDecayWithTime) {
  RecentDemand demand;
  const RecentDemand::Time start{};
  demand.admitted(1000, start + 1h);
  demand.admitted(1000, start + 1h);
  EXPECT_EQ(demand.most(), 2000U);
  demand.admitted(1000, start + 2h);
  EXPECT_EQ(demand.most(), 2000U) << "one alone is less";
  demand.admitted(1000, start + 1h);
  EXPECT_EQ(demand.most(), 2000U) << "a clock that goes back harms nobody";
  demand.fade(4);
  EXPECT_EQ(demand.most(), 1500U);
}

TEST(MemoryPressure, HalfOfSpacedAndAllReplyCheckpointsAreSkipped) {
  const std::uint64_t limit = 1 << 16;
  WorkerParts parts({.limit = limit, .memory = {.choosy_percent = 50}});
  SequenceRun& run = parts.open();
  parts.take_all_but(limit * 2 / 5);
  protocol::CheckpointPlan plan{.flight = 1, .request = 1};
  plan.checkpoints = {{.at = 10, .origin = Origin::kSpaced}, {.at = 20, .origin = Origin::kSpaced},
                      {.at = 30, .origin = Origin::kSystem}, {.at = 40, .origin = Origin::kSpaced},
                      {.at = 50, .origin = Origin::kSpaced}, {.at = 60, .origin = Origin::kReply}};
  AnswerBox<JobResult<protocol::Prefilled>> prefilled;
  protocol::Prefill job{.sequence = run.id, .tokens = WorkerParts::prompt(64), .end = 64};
  job.plan = std::make_shared<const protocol::CheckpointPlan>(std::move(plan));
  auto reply = prefilled.reply();
  ASSERT_FALSE(begin_prefill(parts.table, run, job, reply));
  ASSERT_TRUE(add_checkpoint(parts.table, run, 10)) << "another waits for the first";
  std::memset(run.state->slot_data(), 0, kSlotBytes);
  while (parts.step.build(parts.table, {.tokens = 1000})) parts.compute();
  ASSERT_TRUE(prefilled.answered() && prefilled.answer().ok());
  EXPECT_EQ(prefilled.answer()->reported, 6U) << "whoever waits for one is told that there is none";
  std::vector<std::uint32_t> taken;
  for (const auto& report : parts.reports) {
    if (report.snapshot) taken.push_back(report.at);
  }
  EXPECT_EQ(taken, (std::vector<std::uint32_t>{10, 20, 30, 50}));
  EXPECT_EQ(parts.figures.checkpoints_spared.load(), 2U);
}

protocol::Decode decoding_of(const SequenceRun& run, runtime::StreamWriter<protocol::DecodeEvent> out,
                             std::uint32_t every) {
  protocol::Decode job{
      .sequence = run.id, .max_tokens = 30, .checkpoint_every = every, .out = std::move(out)};
  job.sampling.temperature = 0;
  protocol::CheckpointPlan plan{.origin_elsewhere = Origin::kReply};
  job.plan = std::make_shared<const protocol::CheckpointPlan>(std::move(plan));
  return job;
}

std::vector<std::uint32_t> positions_in_reply(const PartsOptions& options) {
  WorkerParts parts(options);
  SequenceRun& run = parts.open(10);
  auto [writer, reader] = runtime::make_stream<protocol::DecodeEvent>(64);
  protocol::Decode job = decoding_of(run, std::move(writer), 8);
  parts.decoding.begin({&parts.table, &run}, std::move(job));
  while (parts.step.build(parts.table, {.tokens = 1000})) parts.compute();
  EXPECT_EQ(run.decoded.size(), 30U) << "decoding waits for none of them";
  std::vector<std::uint32_t> positions;
  for (const auto& report : parts.reports) {
    EXPECT_TRUE(report.snapshot && report.plan->origin_elsewhere == Origin::kReply);
    EXPECT_EQ(report.tokens->size(), report.at);
    positions.push_back(report.at);
  }
  std::uint32_t counted = 0;
  for (auto event = reader.try_next(); event && event->ok(); event = reader.try_next()) {
    counted = (*event)->reported;
  }
  EXPECT_EQ(counted, positions.size()) << "the last event counts all of them";
  return positions;
}

TEST(ReplyCheckpoints, AreTakenPeriodicallyIfDecodingIsCanonical) {
  models::ModelRules rules{};
  rules.decode_is_canonical = true;
  EXPECT_EQ(positions_in_reply({.rules = rules}), (std::vector<std::uint32_t>{18, 26, 34}));
  rules.grid = 4;
  EXPECT_EQ(positions_in_reply({.rules = rules}), (std::vector<std::uint32_t>{20, 28, 36})) << "on the grid";
  rules.decode_is_canonical = false;
  EXPECT_TRUE(positions_in_reply({.rules = rules}).empty());
}

TEST(ReplyCheckpoints, AreLeftOutWhileMemoryFills) {
  models::ModelRules rules{};
  rules.decode_is_canonical = true;
  EXPECT_TRUE(positions_in_reply({.limit = 1500, .rules = rules, .memory = {.choosy_percent = 10}}).empty());
}

TEST(AdmissionWaits, AreCountedOnceForEachThatCameToFullMemory) {
  WorkerParts parts({.limit = 10 * (kSlotBytes + kPageBytes)});
  parts.take_all_but(kSlotBytes + kPageBytes);
  const auto apply = [&](std::uint64_t ticket, AnswerBox<JobResult<protocol::Opened>>& box) {
    parts.admission.apply({.arch = parts.table.id(), .ticket = ticket, .prompt_tokens = 60, .max_tokens = 4},
                          box.reply(), parts.start);
  };
  AnswerBox<JobResult<protocol::Opened>> first, second;
  apply(101, first);
  parts.admission.admit(parts.start);
  EXPECT_TRUE(first.answered());
  EXPECT_EQ(parts.figures.admission_waits.load(), 0U);
  apply(102, second);
  parts.admission.admit(parts.start);
  parts.admission.admit(parts.start + 1ms);
  EXPECT_FALSE(second.answered());
  parts.state.budget().give(kSlotBytes + kPageBytes);
  parts.memory.reclaim_ended(kSlotBytes + kPageBytes);
  parts.admission.admit(parts.start + 5ms);
  EXPECT_TRUE(second.answered());
  EXPECT_EQ(parts.figures.admission_waits.load(), 1U);
  EXPECT_EQ(parts.figures.admission_wait_ns.load(), 5'000'000U);
}

}  // namespace
}  // namespace reprise::actors
