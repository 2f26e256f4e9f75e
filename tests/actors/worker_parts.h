#pragma once
// The classes of a device worker without the actor or a device: state in host memory, and a model simulated
// by the test.

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "actors/device/admission.h"
#include "actors/device/device_step.h"
#include "actors/device/memory_reclaimer.h"
#include "actors/device/sequence_work.h"
#include "actors/device/snapshot_jobs.h"
#include "base/token.h"

namespace reprise::actors {

using namespace std::chrono_literals;
using protocol::Error;
using protocol::ErrorKind;
using protocol::JobResult;

/// The reply slot of an ask for plain code.
template <class T>
class AnswerBox {
 public:
  AnswerBox() : slot_(new Slot) {}
  ~AnswerBox() { slot_->let_go(); }
  AnswerBox(const AnswerBox&) = delete;
  AnswerBox& operator=(const AnswerBox&) = delete;

  /// Call once.
  runtime::ReplyTo<T> reply() { return runtime::ReplyTo<T>(slot_); }
  bool answered() const { return slot_->value.has_value(); }
  const T& answer() const { return **slot_->value; }

 private:
  struct Slot : runtime::ReplySlot<T> {
    Slot() : runtime::ReplySlot<T>(nullptr) {}
    void deliver() override {
      value.emplace(this->take_value());
      this->release();
    }
    void let_go() {
      this->abandon();
      this->release();
    }
    std::optional<runtime::Result<T>> value;
  };
  Slot* const slot_;
};

using Kind = protocol::SnapshotKv::Kind;
using Phase = SequenceRun::Phase;
using Prefilled = AnswerBox<JobResult<protocol::Prefilled>>;

template <class T>
std::optional<ErrorKind> fault_of(const AnswerBox<JobResult<T>>& box) {
  if (!box.answered() || box.answer().ok()) return std::nullopt;
  return box.answer().error().kind;
}

inline constexpr std::uint64_t kPageBytes = gpu::kPageTokens * 4;
inline constexpr std::uint64_t kSlotBytes = 128;
inline constexpr std::uint32_t kVocab = 16;
inline constexpr std::uint64_t kTailBytes = 16;

/// Rules of a GPU model: decoded states are not canonical, and are swapped out on preemption.
inline constexpr models::ModelRules kGpuRules{.grid = 64,
                                              .phases_mix = false,
                                              .decode_is_canonical = false,
                                              .replays_decoding = false,
                                              .computes_aside = true};

/// Has blocks, and nothing else.
class NoHostMemory : public gpu::HostMemory {
 public:
  gpu::HostBytes take_host(std::size_t /*bytes*/) override { throw std::bad_alloc(); }
};

struct PartsOptions {
  std::uint64_t limit = 1 << 20;
  std::optional<std::uint64_t> swap = 1 << 20;
  gpu::BlockMemory* blocks = nullptr;  // null: the host's
  models::ModelRules rules{};
  std::uint64_t slot_bytes = kSlotBytes;
  AdmissionLimits admission{};
  MemoryRules memory{.choosy_percent = 100};
  bool draws = false;
};

class WorkerParts {
 public:
  explicit WorkerParts(const PartsOptions& options = {})
      : state(options.limit),
        memory(
            state, options.swap, options.memory, figures,
            [this](std::uint64_t bytes, bool ahead) { (ahead ? ahead_of_need : reclaims).push_back(bytes); }),
        admission(state, memory, figures, options.admission),
        snapshots(state, memory, figures, 100ms,
                  [this](const StateTable&, protocol::CheckpointTaken taken) {
                    reports.push_back(std::move(taken));
                    return true;
                  }),
        compaction(state.budget(), memory, figures,
                   [this](const StateTable&, const models::Compaction& one) {
                     EXPECT_EQ(one.into->size(),
                               (one.budget.tokens + gpu::kPageTokens - 1) / gpu::kPageTokens);
                     ++compacted;
                   }),
        decoding(figures, [this](protocol::SequenceId,
                                 protocol::DecodeEvent event) { uncredited.push_back(std::move(event)); }),
        step(state.budget(), memory, snapshots, compaction, decoding, figures),
        table(7,
              {.sizes = {.page_bytes = kPageBytes, .slot_bytes = options.slot_bytes},
               .rules = options.rules,
               .vocab = kVocab,
               .tail_bytes = kTailBytes,
               .draws = options.draws},
              state.budget(), options.blocks) {
    state.add(table);
  }

  /// Opens an idle sequence of that many tokens.
  SequenceRun& open(std::uint32_t tokens = 0) {
    SequenceRun& run = table.open(++tickets_);
    run.order = ++orders_;
    run.state = table.store().open();
    EXPECT_TRUE(run.state.has_value());
    run.prompt = prompt(std::max(tokens, 1U));
    run.prompt_end = tokens;
    if (tokens > 0) {
      EXPECT_TRUE(run.state->reserve(tokens));
      run.state->advance(tokens);
      fill(run);
      run.logits.assign(kVocab, 0.F);
    }
    return run;
  }
  /// Opens a sequence that was preempted while decoding.
  SequenceRun& decoding_run(std::uint32_t tokens) {
    SequenceRun& run = open(tokens);
    run.phase = SequenceRun::Phase::kDecode;
    run.decoded = {1};
    streams_.push_back(runtime::make_stream<protocol::DecodeEvent>(8));
    run.decode.out = std::move(streams_.back().writer);
    return run;
  }
  static SharedTokens prompt(std::uint32_t count) {
    TokenList tokens(count);
    for (std::uint32_t i = 0; i < count; ++i) tokens[i] = static_cast<TokenId>(i % kVocab);
    return share_tokens(std::move(tokens));
  }
  static protocol::SharedPlan plan(const std::vector<std::uint32_t>& positions) {
    protocol::CheckpointPlan plan{.flight = 1, .request = 1};
    for (const std::uint32_t at : positions) plan.checkpoints.push_back({.at = at});
    return std::make_shared<const protocol::CheckpointPlan>(std::move(plan));
  }
  static std::uint64_t hash_of(std::uint32_t tokens) { return token_hash(*prompt(tokens)); }

  /// Allocates all free memory except `bytes`.
  void take_all_but(std::uint64_t bytes) {
    ASSERT_GE(state.budget().free(), bytes);
    ASSERT_TRUE(state.budget().take(state.budget().free() - bytes));
  }

  std::optional<protocol::SnapshotId> snapshot_of(
      SequenceRun& run, protocol::SnapshotKv::Kind kind = protocol::SnapshotKv::Kind::kCanonical) {
    AnswerBox<JobResult<protocol::SnapshotTaken>> taken;
    snapshots.snapshot({.sequence = run.id, .kind = kind}, taken.reply());
    if (!taken.answered() || !taken.answer().ok()) return std::nullopt;
    return taken.answer()->snapshot;
  }

  /// Simulates a step of the model: states advance, the next token is `best`.
  void compute(TokenId best = 3, bool finite = true) {
    StepWork& work = step.work();
    rows_.clear();
    const auto add_row = [&] {
      std::vector<float> row(kVocab, finite ? 0.F : std::numeric_limits<float>::quiet_NaN());
      if (finite) row[static_cast<std::size_t>(best)] = 9.F;
      rows_.insert(rows_.end(), row.begin(), row.end());
    };
    for (models::Slice& slice : work.prefills) {
      const std::size_t begin = slice.sequence->logical();
      slice.sequence->advance(slice.tokens.size());
      if (slice.tail != nullptr) slice.tail->note(begin, slice.sequence->logical());
      for (const models::SlotExport& one : slice.exports) {
        const float sum = finite ? static_cast<float>(one.after) : std::numeric_limits<float>::quiet_NaN();
        std::memcpy(one.slot, &sum, sizeof sum);
      }
      if (slice.plan != nullptr) {
        *slice.drawn = models::DrawnToken{.token = best, .finite = finite};
      } else if (slice.logits != models::Slice::Logits::kNone) {
        add_row();
      }
    }
    const std::size_t prefilled = rows_.size();
    for (models::Slice& slice : work.decodes.slices) {
      slice.sequence->advance(slice.tokens.size());
      add_row();
    }
    work.prefill_logits = std::span<const float>(rows_).first(prefilled);
    work.decodes.logits = std::span<const float>(rows_).subspan(prefilled);
    work.decodes.drawn.assign(work.decodes.slices.size(), std::nullopt);
    ++table.steps;
    step.release_sequences();
    step.take_apart();
    step.clear();
  }

  WorkerFigures figures;
  std::vector<std::uint64_t> reclaims;
  std::vector<std::uint64_t> ahead_of_need;  // started ahead of need
  std::vector<protocol::CheckpointTaken> reports;
  std::vector<protocol::DecodeEvent> uncredited;  // waiting for the reader's credit
  DeviceState state;
  MemoryReclaimer memory;
  Admission admission;
  SnapshotJobs snapshots;
  std::uint32_t compacted = 0;
  PromptCompaction compaction;
  Decoding decoding;
  DeviceStep step;
  StateTable table;
  const std::chrono::steady_clock::time_point start{};

 private:
  void fill(SequenceRun& run) {
    if (table.slot_bytes() > 0) std::memset(run.state->slot_data(), 0, table.slot_bytes());
    for (std::size_t i = 0; i < run.state->pages().size(); ++i) {
      std::memset(run.state->page_data(i), 0, kPageBytes);
    }
  }

  std::uint64_t tickets_ = 0;
  std::uint64_t orders_ = 0;
  std::vector<float> rows_;
  std::vector<runtime::Stream<protocol::DecodeEvent>> streams_;
};

}  // namespace reprise::actors
