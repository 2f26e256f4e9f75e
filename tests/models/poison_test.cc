// Checks that layers declare all of their state, for every family and ISA: all other bytes of pages and slots
// are NaN before a restore, and the outputs must equal a cold run. Then each field of state is made NaN in
// turn, which must change the outputs. ISAs other than the best use one cut of a short prompt, unless
// REPRISE_THOROUGH is set.

#include "gpu/state/block_memory.h"
#include "tests/models/family_runs.h"
#include "tests/thorough.h"

namespace reprise::models {
namespace {

using gpu::Sequence;
using gpu::Snapshot;
using test::FamilyRuns;
using test::FamilySetting;

constexpr int kNan = 0xff;  // four such bytes are an f32 NaN, two a bf16 NaN

/// Memory whose blocks are initially NaN.
class PoisonedMemory : public gpu::HostMemory {
 public:
  std::byte* take(std::size_t bytes) override {
    std::byte* block = gpu::HostMemory::take(bytes);
    if (block != nullptr) fill(block, kNan, bytes);
    return block;
  }
  bool gives_zeros(std::size_t) const override { return false; }
};

class Poison : public testing::TestWithParam<FamilySetting> {
 protected:
  Poison()
      : clean_(GetParam(), 2, {.pages = 8, .slots = 2}),
        poisoned_(GetParam(), 2, {.pages = 16, .slots = 4, .memory = &memory_}) {
    tokens_ = clean_.random_tokens(length_, 3);
    Sequence cold = clean_.open(length_);
    reference_ = clean_.prefill(cold, tokens_);
  }

  const std::vector<StateLayout::Field>& fields() const { return poisoned_.state().per_sequence(); }

  /// Makes the bytes of a slot between and after the declared fields NaN.
  void poison_around_fields(const Sequence& sequence) {
    std::size_t declared_to = 0;
    const auto poison_to = [&](std::size_t end) {
      if (end > declared_to) memory_.fill(sequence.slot_data() + declared_to, kNan, end - declared_to);
    };
    for (const StateLayout::Field& field : fields()) {
      poison_to(field.offset);
      declared_to = field.offset + field.bytes;
    }
    poison_to(poisoned_.state().sizes().slot_bytes);
  }

  /// Makes all free blocks NaN: those that a restore will get.
  void poison_free_blocks() {
    std::vector<Sequence> all;
    while (std::optional<Sequence> one = poisoned_.store().open()) {
      if (poisoned_.state().sizes().slot_bytes != 0) {
        memory_.fill(one->slot_data(), kNan, poisoned_.state().sizes().slot_bytes);
      }
      std::size_t pages = 0;
      while (poisoned_.state().sizes().page_bytes != 0 && one->reserve((pages + 1) * gpu::kPageTokens)) {
        memory_.fill(one->page_data(pages++), kNan, poisoned_.state().sizes().page_bytes);
      }
      all.push_back(std::move(*one));
    }
  }

  Snapshot snapshot_at(std::size_t cut) {
    Sequence source = poisoned_.open(cut);
    poison_around_fields(source);
    poisoned_.prefill(source, std::span(tokens_).first(cut));
    return poisoned_.capture(source);
  }

  testing::AssertionResult continues_as_cold(Sequence& sequence) {
    const std::size_t cut = sequence.stored();
    return test::same_logits(poisoned_.prefill(sequence, std::span(tokens_).subspan(cut)), reference_, cut,
                             poisoned_.vocab());
  }

  const bool does_all_ = thorough() || GetParam().options.isa == gpu::best_isa();
  const std::size_t length_ = does_all_ ? 150 : 70;
  PoisonedMemory memory_;
  FamilyRuns clean_;
  FamilyRuns poisoned_;
  std::vector<TokenId> tokens_;
  std::vector<float> reference_;
};

TEST_P(Poison, WhatWasNotDeclaredIsNotMissed) {
  const std::vector<std::size_t> all = {1, 2, 3, 20, 63, 64, 65, 100, 128, 149};
  for (const std::size_t cut : does_all_ ? all : std::vector<std::size_t>{65}) {
    SCOPED_TRACE("cut at " + std::to_string(cut));
    const Snapshot snapshot = snapshot_at(cut);
    poison_free_blocks();
    Sequence restored = poisoned_.restore(snapshot, length_ - cut);
    poison_around_fields(restored);
    ASSERT_TRUE(continues_as_cold(restored));
  }
}

TEST_P(Poison, WhatWasDeclaredIs) {
  const std::size_t cut = does_all_ ? 100 : 65;
  const Snapshot snapshot = snapshot_at(cut);
  for (const StateLayout::Field& field : fields()) {
    Sequence restored = poisoned_.restore(snapshot, length_ - cut);
    memory_.fill(restored.slot_data() + field.offset, kNan, field.bytes);
    EXPECT_FALSE(continues_as_cold(restored)) << field.name << " is kept, but not used";
  }
  for (const StateLayout::Field& field : poisoned_.state().per_token()) {
    // It has its own last page: the last token is recomputed after a copy of the partial page.
    Sequence restored = poisoned_.restore(snapshot, length_ - cut);
    memory_.fill(restored.page_data(1) + field.offset, kNan, field.bytes * gpu::kPageTokens);
    EXPECT_FALSE(continues_as_cold(restored)) << field.name << " is kept, but not used";
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Poison, testing::ValuesIn(test::best_settings()),
                         [](const auto& info) { return info.param.name(); });
INSTANTIATE_TEST_SUITE_P(OtherSets, Poison, testing::ValuesIn(test::other_settings()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace reprise::models
