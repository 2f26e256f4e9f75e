// A step without a device: its contents and its results.

#include "actors/cache/checkpoint_plan.h"
#include "tests/actors/worker_parts.h"

namespace reprise::actors {
namespace {

class DeviceStepTest : public testing::Test {
 protected:
  std::optional<JobError> begin(WorkerParts& parts, SequenceRun& run, Prefilled& box, std::uint32_t end,
                                const std::vector<std::uint32_t>& places = {}) {
    protocol::Prefill job{.sequence = run.id,
                          .tokens = WorkerParts::prompt(end),
                          .end = end,
                          .plan = WorkerParts::plan(places)};
    auto reply = box.reply();
    return begin_prefill(parts.table, run, job, reply);
  }
  /// Runs steps until no sequence can run; returns their number.
  std::uint32_t run_all(WorkerParts& parts, const BatchLimits& limits) {
    std::uint32_t steps = 0;
    while (parts.step.build(parts.table, limits)) {
      parts.compute();
      ++steps;
    }
    return steps;
  }
};

TEST_F(DeviceStepTest, APrefillStopsAtItsCheckpointsAndEndsWithLogits) {
  WorkerParts parts;
  SequenceRun& run = parts.open();
  Prefilled prefilled;
  ASSERT_FALSE(begin(parts, run, prefilled, 200, {50, 150}).has_value());
  EXPECT_EQ(run_all(parts, {.tokens = 1000}), 3U) << "to 50, to 150, to the end";
  ASSERT_TRUE(prefilled.answered() && prefilled.answer().ok());
  EXPECT_EQ(prefilled.answer()->computed, 200U);
  EXPECT_EQ(run.phase, Phase::kIdle);
  EXPECT_EQ(run.logits.size(), kVocab);
  EXPECT_EQ(parts.table.snapshots().size(), 2U);
  EXPECT_EQ(parts.figures.prefill_tokens.load(), 200U);
  EXPECT_EQ(prefilled.answer()->reported, 2U);
  ASSERT_EQ(parts.reports.size(), 2U);
  EXPECT_EQ(parts.reports[0].at, 50U);
  EXPECT_TRUE(parts.reports[0].snapshot.has_value());
  EXPECT_EQ(parts.reports[1].at, 150U);
  EXPECT_EQ(parts.reports[1].plan->flight, 1U);
}

TEST_F(DeviceStepTest, APrefillTellsOfEachSliceThatHasCredit) {
  WorkerParts parts;
  SequenceRun& run = parts.open();
  Prefilled prefilled;
  auto reply = prefilled.reply();
  auto [writer, reader] = runtime::make_stream<std::uint32_t>(1);
  protocol::Prefill job{.sequence = run.id, .tokens = WorkerParts::prompt(200), .end = 200};
  job.progress = std::move(writer);
  ASSERT_FALSE(begin_prefill(parts.table, run, job, reply).has_value());
  std::vector<std::uint32_t> told;
  for (int step = 0; parts.step.build(parts.table, {.tokens = 64}); ++step) {
    parts.compute();
    if (step == 1) continue;  // its reader is slow
    const auto next = reader.try_next();
    ASSERT_TRUE(next && next->ok());
    told.push_back(**next);
  }
  ASSERT_TRUE(prefilled.answered() && prefilled.answer().ok());
  EXPECT_EQ(told, (std::vector<std::uint32_t>{64, 128, 200})) << "what had no credit is left out";
  const auto end = reader.try_next();
  ASSERT_TRUE(end && !end->ok()) << "it ends with the prefill";
}

constexpr models::ModelRules kExportingRules{.grid = 64,
                                             .phases_mix = false,
                                             .decode_is_canonical = false,
                                             .replays_decoding = false,
                                             .exports_slots = true,
                                             .computes_aside = true};

TEST_F(DeviceStepTest, APrefillPassesItsCheckpointsWhereTheModelWritesStatesOnTheWay) {
  WorkerParts parts({.rules = kExportingRules});
  SequenceRun& run = parts.open();
  Prefilled prefilled;
  ASSERT_FALSE(begin(parts, run, prefilled, 300, {64, 192, 256}).has_value());
  ASSERT_TRUE(parts.step.build(parts.table, {.tokens = 256}));
  ASSERT_EQ(parts.step.work().prefills.size(), 1U);
  const models::Slice slice = parts.step.work().prefills.front();
  EXPECT_EQ(slice.tokens.size(), 256U);
  ASSERT_EQ(slice.exports.size(), 2U) << "the third stands at the slice's end";
  EXPECT_EQ(slice.exports[0].after, 64U);
  EXPECT_EQ(slice.exports[1].after, 192U);
  EXPECT_TRUE(add_checkpoint(parts.table, run, 192)) << "it is on its way";
  EXPECT_FALSE(add_checkpoint(parts.table, run, 128)) << "the step under way passes it";
  EXPECT_TRUE(parts.reports.empty());
  parts.compute();
  EXPECT_EQ(run_all(parts, {.tokens = 256}), 1U);
  ASSERT_TRUE(prefilled.answered() && prefilled.answer().ok());
  EXPECT_EQ(prefilled.answer()->computed, 300U);
  EXPECT_EQ(prefilled.answer()->reported, 3U);
  ASSERT_EQ(parts.reports.size(), 3U);
  for (const auto& [index, at] : {std::pair{0U, 64U}, {1U, 192U}, {2U, 256U}}) {
    EXPECT_EQ(parts.reports[index].at, at);
    ASSERT_TRUE(parts.reports[index].snapshot.has_value());
    const SnapshotRecord* record = parts.table.find(parts.reports[index].snapshot->snapshot);
    ASSERT_NE(record, nullptr);
    EXPECT_EQ(record->state.logical(), at);
    EXPECT_EQ(record->state.pages().size(), at / gpu::kPageTokens);
    EXPECT_EQ(record->tokens, run.prompt);
  }
}

TEST_F(DeviceStepTest, AStepEndsAtACheckpointWhoseMemoryIsOnTheWay) {
  WorkerParts parts({.limit = 2 * kSlotBytes + 4 * kPageBytes, .rules = kExportingRules});
  SequenceRun& run = parts.open();
  Prefilled prefilled;
  ASSERT_FALSE(begin(parts, run, prefilled, 200, {64, 128}).has_value());
  ASSERT_TRUE(parts.step.build(parts.table, {.tokens = 1000}));
  EXPECT_EQ(parts.step.work().prefills.front().tokens.size(), 128U) << "there is a slot for one of them";
  EXPECT_EQ(parts.step.work().prefills.front().exports.size(), 1U);
  EXPECT_EQ(parts.reclaims.size(), 1U);
  parts.compute();
  EXPECT_FALSE(parts.step.build(parts.table, {.tokens = 1000})) << "it waits for what is asked back";
  parts.memory.reclaim_ended(0);
  EXPECT_EQ(run_all(parts, {.tokens = 1000}), 1U) << "nothing came: that place is left out";
  ASSERT_TRUE(prefilled.answered() && prefilled.answer().ok());
  ASSERT_EQ(parts.reports.size(), 2U);
  EXPECT_TRUE(parts.reports[0].snapshot.has_value());
  EXPECT_FALSE(parts.reports[1].snapshot.has_value());
  EXPECT_EQ(parts.figures.checkpoints_skipped.load(), 1U);
}

TEST_F(DeviceStepTest, PlacesWithoutRoomArePassedAndTold) {
  WorkerParts parts({.limit = kSlotBytes + 4 * kPageBytes, .rules = kExportingRules});
  SequenceRun& run = parts.open();
  ASSERT_EQ(parts.memory.find({.bytes = 1 << 20}), Availability::kComing);
  parts.memory.reclaim_ended(0);  // the registries have nothing to free
  Prefilled prefilled;
  ASSERT_FALSE(begin(parts, run, prefilled, 200, {64, 128}).has_value());
  EXPECT_EQ(run_all(parts, {.tokens = 1000}), 1U);
  EXPECT_EQ(parts.table.snapshots().size(), 0U);
  EXPECT_EQ(parts.figures.checkpoints_skipped.load(), 2U);
  ASSERT_EQ(parts.reports.size(), 2U) << "whoever waits for them need not";
  EXPECT_EQ(prefilled.answer()->reported, 2U);
}

TEST_F(DeviceStepTest, StatesOnTheWayThatAreNotFiniteAreNotKept) {
  for (const std::uint64_t slot_bytes : {kSlotBytes, std::uint64_t{0}}) {
    WorkerParts parts({.rules = kExportingRules, .slot_bytes = slot_bytes});
    SequenceRun& run = parts.open();
    Prefilled prefilled;
    ASSERT_FALSE(begin(parts, run, prefilled, 400, {64, 128}).has_value());
    ASSERT_TRUE(parts.step.build(parts.table, {.tokens = 256}));
    parts.compute(3, false);
    EXPECT_EQ(parts.table.snapshots().size(), 0U) << "by the slot, or by the logits where there is none";
    ASSERT_EQ(parts.reports.size(), 2U);
    EXPECT_FALSE(parts.reports[0].healthy);
  }
}

TEST_F(DeviceStepTest, WhatAStepPassesGoesWithASequenceThatIsClosedInIt) {
  WorkerParts parts({.rules = kExportingRules});
  SequenceRun& run = parts.open();
  const std::uint64_t before = parts.state.budget().used() - kSlotBytes;
  Prefilled prefilled;
  ASSERT_FALSE(begin(parts, run, prefilled, 200, {64, 128}).has_value());
  ASSERT_TRUE(parts.step.build(parts.table, {.tokens = 1000}));
  run.closing = true;
  parts.compute();
  EXPECT_EQ(parts.table.sequences().size(), 0U);
  EXPECT_TRUE(parts.reports.empty());
  EXPECT_EQ(parts.state.budget().used(), before);
}

class CarriedDecodeTest : public DeviceStepTest {
 protected:
  using Reader = runtime::StreamReader<protocol::DecodeEvent>;

  static protocol::Decode decode_of(const SequenceRun& run, Reader& reader, SamplingParams sampling) {
    auto [writer, its_reader] = runtime::make_stream<protocol::DecodeEvent>(8);
    reader = std::move(its_reader);
    return {.sequence = run.id, .sampling = std::move(sampling), .max_tokens = 2, .out = std::move(writer)};
  }
  /// Begins a prefill of 100 tokens that carries `decode`.
  static std::optional<JobError> begin_carrying(WorkerParts& parts, SequenceRun& run, Prefilled& box,
                                                protocol::Decode decode) {
    protocol::Prefill job{.sequence = run.id,
                          .tokens = WorkerParts::prompt(100),
                          .end = 100,
                          .plan = WorkerParts::plan({}),
                          .decode = std::move(decode)};
    auto reply = box.reply();
    return begin_prefill(parts.table, run, job, reply);
  }
  /// Computes all steps of the prompt but the last, and builds that.
  static void build_last_step(WorkerParts& parts) {
    ASSERT_TRUE(parts.step.build(parts.table, {.tokens = 64}));
    EXPECT_EQ(parts.step.work().prefills.front().plan, nullptr) << "only the last slice samples";
    parts.compute(5);
    ASSERT_TRUE(parts.step.build(parts.table, {.tokens = 64}));
  }
  static std::optional<TokenId> token_in(Reader& reader) {
    const auto event = reader.try_next();
    if (!event || !event->ok() || !(*event)->token) return std::nullopt;
    return (*event)->token->token;
  }

  const SamplingParams greedy_{.temperature = 0};
};

TEST_F(CarriedDecodeTest, BeginsInTheStepThatEndsThePrefill) {
  for (const bool draws : {true, false}) {
    WorkerParts parts({.rules = kExportingRules, .draws = draws});
    SequenceRun& run = parts.open();
    Prefilled box;
    Reader reader;
    ASSERT_FALSE(begin_carrying(parts, run, box, decode_of(run, reader, greedy_)).has_value());
    build_last_step(parts);
    EXPECT_EQ(parts.step.work().prefills.front().plan != nullptr, draws);
    parts.compute(5);
    ASSERT_TRUE(box.answered() && box.answer().ok());
    EXPECT_EQ(token_in(reader), 5);
    EXPECT_EQ(run.phase, Phase::kDecode);
    EXPECT_EQ(run_all(parts, {.tokens = 64}), 1U) << "without another message";
    const auto last = reader.try_next();
    ASSERT_TRUE(last && last->ok());
    EXPECT_EQ((*last)->end, protocol::DecodeEnd::kLength);
  }
}

TEST_F(CarriedDecodeTest, LogitsAreKeptForWhatTheDeviceCannotDraw) {
  WorkerParts parts({.rules = kExportingRules, .draws = true});
  SequenceRun& run = parts.open();
  Prefilled box;
  Reader reader;
  const SamplingParams with_logprobs{.temperature = 0, .logprobs = 1};
  ASSERT_FALSE(begin_carrying(parts, run, box, decode_of(run, reader, with_logprobs)).has_value());
  build_last_step(parts);
  EXPECT_EQ(parts.step.work().prefills.front().plan, nullptr);
  parts.compute(5);
  const auto event = reader.try_next();
  ASSERT_TRUE(event && event->ok() && (*event)->token);
  EXPECT_TRUE((*event)->token->logprob.has_value());
}

TEST_F(CarriedDecodeTest, AMaskedFirstTokenWaitsForItsMask) {
  WorkerParts parts({.rules = kExportingRules, .draws = true});
  SequenceRun& run = parts.open();
  Prefilled box;
  Reader reader;
  protocol::Decode decode = decode_of(run, reader, greedy_);
  const auto slot = std::make_shared<MaskSlot>();
  decode.masks = slot;
  ASSERT_FALSE(begin_carrying(parts, run, box, std::move(decode)).has_value());
  build_last_step(parts);
  EXPECT_EQ(parts.step.work().prefills.front().plan, nullptr) << "the mask may be late";
  parts.compute(5);
  ASSERT_TRUE(box.answered() && box.answer().ok());
  EXPECT_TRUE(run.decode.awaits_mask);
  EXPECT_FALSE(reader.try_next().has_value());
  auto mask = std::make_shared<TokenMask>(kVocab);
  mask->allow(9);
  slot->put(0, std::move(mask));
  parts.decoding.take_mask(run);
  EXPECT_EQ(token_in(reader), 9);
}

TEST_F(CarriedDecodeTest, WaitsForTheCompactionOfItsPrompt) {
  for (const bool draws : {true, false}) {
    WorkerParts parts({.limit = kSlotBytes + 2 * kPageBytes + 1024, .rules = kGpuRules, .draws = draws});
    SequenceRun& run = parts.open();
    run.compaction.budget = {.tokens = 64, .window = 16};
    run.compaction.tail =
        models::PromptTail::make(kTailBytes, 16, &parts.state.budget(), parts.table.store().memory());
    ASSERT_TRUE(run.compaction.tail);
    Prefilled box;
    Reader reader;
    ASSERT_FALSE(begin_carrying(parts, run, box, decode_of(run, reader, greedy_)).has_value());
    build_last_step(parts);
    const std::uint64_t taken = parts.state.budget().free();
    ASSERT_TRUE(parts.state.budget().take(taken));
    parts.compute(5);
    EXPECT_FALSE(box.answered()) << "there is no memory for the compacted prompt";
    EXPECT_FALSE(reader.try_next().has_value());
    parts.state.budget().give(taken);
    parts.memory.reclaim_ended(taken);
    parts.memory.begin_round();
    ASSERT_TRUE(parts.step.build(parts.table, {.tokens = 64}))
        << "the same round decodes: no message follows";
    ASSERT_TRUE(box.answered() && box.answer().ok());
    EXPECT_EQ(token_in(reader), 5);
    EXPECT_EQ(parts.step.work().decodes.slices.size(), 1U);
    parts.compute(6);
    EXPECT_EQ(token_in(reader), 6);
  }
}

TEST_F(CarriedDecodeTest, DoesNotBeginAfterAPrefillThatFails) {
  for (const bool draws : {true, false}) {
    WorkerParts parts({.rules = kExportingRules, .draws = draws});
    SequenceRun& run = parts.open();
    Prefilled box;
    Reader reader;
    ASSERT_FALSE(begin_carrying(parts, run, box, decode_of(run, reader, greedy_)).has_value());
    build_last_step(parts);
    parts.compute(5, false);
    EXPECT_EQ(fault_of(box), JobFault::kUnhealthy);
    EXPECT_EQ(run.phase, Phase::kIdle);
    const auto end = reader.try_next();
    ASSERT_TRUE(end.has_value()) << "its stream has ended";
    EXPECT_FALSE(end->ok());
  }
}

TEST_F(CarriedDecodeTest, DoesNotBeginAfterACancelDuringTheStep) {
  WorkerParts parts({.rules = kExportingRules, .draws = true});
  SequenceRun& run = parts.open();
  Prefilled box;
  Reader reader;
  ASSERT_FALSE(begin_carrying(parts, run, box, decode_of(run, reader, greedy_)).has_value());
  build_last_step(parts);
  run.end_work({JobFault::kCanceled, "cancelled"});
  parts.compute(5);
  EXPECT_EQ(fault_of(box), JobFault::kCanceled);
  EXPECT_EQ(run.phase, Phase::kIdle);
  EXPECT_TRUE(run.decoded.empty());
  const auto end = reader.try_next();
  ASSERT_TRUE(end.has_value());
  EXPECT_FALSE(end->ok());
}

TEST_F(CarriedDecodeTest, DoesNotBeginAfterAPrefillThatIsLeftOff) {
  WorkerParts parts({.rules = kExportingRules, .draws = true});
  SequenceRun& run = parts.open();
  Prefilled box;
  Reader reader;
  ASSERT_FALSE(begin_carrying(parts, run, box, decode_of(run, reader, greedy_)).has_value());
  build_last_step(parts);
  EXPECT_TRUE(leave_off(parts.table, run));
  parts.compute(5);
  ASSERT_TRUE(box.answered() && box.answer().ok());
  EXPECT_EQ(run.phase, Phase::kIdle);
  EXPECT_TRUE(run.decoded.empty());
  const auto end = reader.try_next();
  ASSERT_TRUE(end.has_value());
  EXPECT_FALSE(end->ok());
}

TEST_F(CarriedDecodeTest, RefusesInvalidSamplingBeforeThePrefill) {
  WorkerParts parts;
  SequenceRun& run = parts.open();
  Prefilled box;
  Reader reader;
  const auto refused = begin_carrying(parts, run, box, decode_of(run, reader, {.temperature = -1}));
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->kind, JobFault::kBadJob);
  EXPECT_EQ(run.phase, Phase::kIdle);
}

TEST_F(DeviceStepTest, StepsOfALongPromptWithTheCheckpointsThatItIsGiven) {
  // As planned for a GPU, whose steps have 2,048 tokens.
  std::vector<std::uint32_t> places;
  const TokenList prompt(8192, 1);
  for (const PlannedCheckpoint& one : plan_checkpoints(prompt, {}, 0, std::nullopt, {}, {.grid = 64})) {
    places.push_back(one.at);
  }
  EXPECT_EQ(places.size(), 14U);
  const auto steps_by = [&](const models::ModelRules& rules) {
    WorkerParts parts({.rules = rules});
    SequenceRun& run = parts.open();
    Prefilled prefilled;
    EXPECT_FALSE(begin(parts, run, prefilled, 8192, places).has_value());
    const std::uint32_t steps = run_all(parts, {.tokens = 2048});
    EXPECT_EQ(parts.table.snapshots().size(), places.size());
    return steps;
  };
  EXPECT_EQ(steps_by(kGpuRules), 15U) << "that end at each";
  EXPECT_EQ(steps_by(kExportingRules), 4U);
}

TEST_F(DeviceStepTest, WhatAPrefillMustBe) {
  WorkerParts parts({.rules = kGpuRules});
  SequenceRun& run = parts.open(64);
  const auto refused = [&](std::uint32_t end, const std::vector<std::uint32_t>& places) {
    Prefilled box;
    const auto refusal = begin(parts, run, box, end, places);
    return refusal && refusal->kind == JobFault::kBadJob && run.phase == Phase::kIdle;
  };
  EXPECT_TRUE(refused(64, {})) << "not beyond what it holds";
  EXPECT_TRUE(refused(200, {100})) << "off the grid";
  EXPECT_TRUE(refused(200, {128, 128}));
  EXPECT_TRUE(refused(200, {256}));
  Prefilled outside;
  auto reply = outside.reply();
  protocol::Prefill job{.sequence = run.id, .tokens = share_tokens(TokenList(100, kVocab)), .end = 100};
  EXPECT_EQ(begin_prefill(parts.table, run, job, reply)->kind, JobFault::kBadJob);
  Prefilled box;
  EXPECT_FALSE(begin(parts, run, box, 200, {64, 128}).has_value());
  EXPECT_EQ(run.prefill.checkpoints, std::deque<std::uint32_t>{128})
      << "what it holds already is not taken again";
}

TEST_F(DeviceStepTest, ACheckpointMayBeAddedAheadOfAPrefillAndNotBehindIt) {
  WorkerParts parts;
  SequenceRun& run = parts.open();
  run.prompt.reset();
  run.priority = protocol::Priority::kIdle;
  EXPECT_TRUE(add_checkpoint(parts.table, run, 30)) << "it may overtake the prefill";
  Prefilled prefilled;
  ASSERT_FALSE(begin(parts, run, prefilled, 100, {60}).has_value());
  EXPECT_EQ(run.prefill.checkpoints, (std::deque<std::uint32_t>{30, 60}));
  ASSERT_TRUE(parts.step.build(parts.table, {.tokens = 1000, .idle_tokens = 1000}));
  EXPECT_FALSE(add_checkpoint(parts.table, run, 20)) << "the step under way passes it";
  EXPECT_TRUE(add_checkpoint(parts.table, run, 80));
  EXPECT_EQ(run.priority, protocol::Priority::kNormal) << "somebody waits for it now";
  EXPECT_FALSE(add_checkpoint(parts.table, run, 101));
  parts.compute();
  run_all(parts, {.tokens = 1000});
  EXPECT_EQ(parts.table.snapshots().size(), 3U);
}

TEST_F(DeviceStepTest, APrefillThatIsLeftOffEndsAtTheNextPlaceWithACheckpoint) {
  WorkerParts parts;
  SequenceRun& run = parts.open();
  EXPECT_FALSE(leave_off(parts.table, run)) << "nothing is computed";
  Prefilled prefilled;
  ASSERT_FALSE(begin(parts, run, prefilled, 100, {60, 90}).has_value());
  ASSERT_TRUE(parts.step.build(parts.table, {.tokens = 20, .idle_tokens = 20}));
  const std::uint32_t reached = run.reached();
  ASSERT_LT(reached, 60U);
  EXPECT_TRUE(leave_off(parts.table, run));
  EXPECT_EQ(run.prompt_end, reached + 1);
  EXPECT_EQ(run.prefill.checkpoints, (std::deque<std::uint32_t>{reached + 1}));
  EXPECT_TRUE(leave_off(parts.table, run)) << "once more changes nothing";
  parts.compute();
  run_all(parts, {.tokens = 1000});
  EXPECT_EQ(run.held_tokens(), reached + 1);
  EXPECT_EQ(parts.table.snapshots().size(), 1U);
}

TEST_F(DeviceStepTest, LogitsThatAreNotFiniteFailThePrefill) {
  WorkerParts parts({.slot_bytes = 0});
  SequenceRun& run = parts.open();
  Prefilled prefilled;
  ASSERT_FALSE(begin(parts, run, prefilled, 64, {64}).has_value());
  ASSERT_TRUE(parts.step.build(parts.table, {.tokens = 1000}));
  parts.compute(3, false);
  EXPECT_EQ(fault_of(prefilled), JobFault::kUnhealthy);
  EXPECT_EQ(parts.table.snapshots().size(), 0U) << "without a slot the logits judge the checkpoint";
  ASSERT_EQ(parts.reports.size(), 1U) << "whoever waits for it need not";
  EXPECT_FALSE(parts.reports[0].healthy);
}

TEST_F(DeviceStepTest, WhoFindsNoPagesIsLeftOut) {
  WorkerParts parts({.limit = 2 * kSlotBytes + kPageBytes});
  SequenceRun& first = parts.open();
  SequenceRun& second = parts.open();
  Prefilled one;
  Prefilled other;
  ASSERT_FALSE(begin(parts, first, one, 64).has_value());
  ASSERT_FALSE(begin(parts, second, other, 64).has_value());
  ASSERT_TRUE(parts.step.build(parts.table, {.tokens = 1000}));
  EXPECT_EQ(parts.step.work().prefills.size(), 1U);
  EXPECT_EQ(parts.reclaims.size(), 1U) << "and looks for them";
  parts.compute();
}

TEST_F(DeviceStepTest, ASequenceThatIsClosedInAStepGoesWithIt) {
  WorkerParts parts;
  SequenceRun& run = parts.open();
  const protocol::SequenceId id = run.id;
  Prefilled prefilled;
  ASSERT_FALSE(begin(parts, run, prefilled, 64).has_value());
  ASSERT_TRUE(parts.step.build(parts.table, {.tokens = 1000}));
  run.end_work({JobFault::kCanceled, "closed"});
  run.closing = true;
  EXPECT_EQ(fault_of(prefilled), JobFault::kCanceled);
  parts.compute();
  EXPECT_EQ(parts.table.find(id), nullptr);
  EXPECT_EQ(parts.state.budget().used(), 0U);
}

TEST_F(DeviceStepTest, TokensAreDecodedUntilTheLastOneAndAtTheReadersPace) {
  WorkerParts parts;
  SequenceRun& run = parts.open(10);
  auto [writer, reader] = runtime::make_stream<protocol::DecodeEvent>(2);
  protocol::Decode job{.sequence = run.id, .max_tokens = 4, .out = std::move(writer)};
  job.sampling.temperature = 0;
  parts.decoding.begin({&parts.table, &run}, std::move(job));
  EXPECT_EQ(run.decoded.size(), 1U) << "from the prefill's logits";
  EXPECT_EQ(run_all(parts, {}), 2U);
  ASSERT_EQ(parts.uncredited.size(), 1U) << "two were read by nobody, the third waits";
  EXPECT_TRUE(run.decode.awaits_credit);
  EXPECT_TRUE(reader.try_next()->ok());
  EXPECT_TRUE(reader.try_next()->ok());
  ASSERT_TRUE(run.decode.out.try_write(parts.uncredited[0]).has_value());
  parts.decoding.written(run, false, true);
  EXPECT_EQ(run_all(parts, {}), 1U);
  EXPECT_EQ(reader.try_next().value()->token->token, 3);
  EXPECT_EQ(reader.try_next().value()->end, protocol::DecodeEnd::kLength);
  EXPECT_EQ(run.phase, Phase::kIdle);
}

TEST_F(DeviceStepTest, APreemptedSequenceCatchesUpBeforeItGoesOn) {
  WorkerParts parts;
  SequenceRun& run = parts.open(10);
  auto [writer, reader] = runtime::make_stream<protocol::DecodeEvent>(16);
  protocol::Decode job{.sequence = run.id, .max_tokens = 8, .out = std::move(writer)};
  job.sampling.temperature = 0;
  parts.decoding.begin({&parts.table, &run}, std::move(job));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(parts.step.build(parts.table, {}));
    parts.compute();
  }
  EXPECT_EQ(run.decoded.size(), 4U);
  run.state.reset();
  EXPECT_FALSE(parts.step.build(parts.table, {}));
  ASSERT_TRUE(parts.memory.bring_back_preempted());
  ASSERT_TRUE(parts.step.build(parts.table, {}));
  EXPECT_EQ(parts.step.work().prefills.size(), 1U) << "its 13 tokens in one slice: decoding is prefilling";
  parts.compute();
  EXPECT_EQ(run.decoded.size(), 4U) << "nothing new was chosen";
  ASSERT_TRUE(parts.step.build(parts.table, {}));
  parts.compute();
  EXPECT_EQ(run.decoded.size(), 5U);
}

}  // namespace
}  // namespace reprise::actors
