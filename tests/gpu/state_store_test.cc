// Sequences and snapshots in host memory: the contract of every store, what is copied, shared and refused,
// and no leaks.

#include "gpu/state/state_store.h"
#include "gpu/state/scarce_memory.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "tests/gpu/state_store_contract.h"

namespace reprise::gpu::test {
namespace {

struct InHostMemory {
  static constexpr int kSteps = 20000;
  static constexpr std::size_t kByteStep = 1;
  static constexpr const char* kName = "Host";
  static bool is_here() { return true; }
  ~InHostMemory() { EXPECT_EQ(memory_.used(), 0U) << "all of it was given back"; }
  BlockMemory& memory() { return memory_; }

 private:
  ScarceMemory memory_;
};
INSTANTIATE_TYPED_TEST_SUITE_P(In, StateStoreContract, InHostMemory, PlaceNames);

TEST(StateStore, ASnapshotOfAPlaceThatIsYetToBePassed) {
  StateStore store(kSizes, {.pages = 8, .slots = 3});
  filled(store, 1, 77);  // leaves its contents in a free slot
  Sequence sequence = filled(store, kPageTokens);
  ASSERT_TRUE(sequence.reserve(kPageTokens + 5));
  std::optional<Snapshot> snapshot = store.begin_capture(sequence, 2 * kPageTokens);
  ASSERT_TRUE(snapshot.has_value());
  EXPECT_EQ(*snapshot->slot_data(), std::byte{0}) << "whatever was there before";
  for (std::uint32_t i = 0; i < kPageTokens; ++i) put(store, sequence, 1000 + i);
  std::memcpy(snapshot->slot_data(), sequence.slot_data(), kSizes.slot_bytes);
  for (std::uint32_t i = 0; i < 5; ++i) put(store, sequence, 5000 + i);
  Snapshot* const written[] = {&*snapshot};
  store.end_captures(written);
  EXPECT_TRUE(snapshot->finite());
  EXPECT_EQ(snapshot->exclusive_bytes(), kSizes.slot_bytes) << "its pages are the sequence's too";
  Restoration restored = store.restore(*snapshot);
  ASSERT_TRUE(restored.sequence.has_value());
  EXPECT_EQ(restored.sequence->stored(), 2 * kPageTokens);
  EXPECT_EQ(restored.sequence->logical(), 2 * kPageTokens);
  EXPECT_EQ(slot_of(store, *restored.sequence), 1000 + kPageTokens - 1);
  EXPECT_FALSE(store.begin_capture(sequence, 3 * kPageTokens).has_value()) << "there is no slot left";
  restored.sequence.reset();
  damage(store, *snapshot);
  EXPECT_TRUE(store.restore(*snapshot).damaged);
  snapshot.reset();
  { const Sequence gone = std::move(sequence); }
  EXPECT_EQ(store.used_bytes(), 0U);
}

// The system returns large blocks zeroed, so the store does not fill them; it zeroes returned ones.
TEST(StateStore, NewAndReusedLargeBlocksAreZeroed) {
  constexpr StateSizes kLarge{.page_bytes = HostMemory::kMapped, .slot_bytes = 2 * HostMemory::kMapped};
  StateStore store(kLarge, {.pages = 4, .slots = 2});
  const auto is_clear = [](const std::byte* at, std::size_t bytes) {
    return std::all_of(at, at + bytes, [](std::byte one) { return one == std::byte{0}; });
  };
  for (const char* blocks : {"new", "used"}) {
    SCOPED_TRACE(blocks);
    std::optional<Sequence> sequence = store.open();
    ASSERT_TRUE(sequence.has_value() && sequence->reserve(kPageTokens + 5));
    std::optional<Snapshot> snapshot = store.begin_capture(*sequence, kPageTokens + 5);
    ASSERT_TRUE(snapshot.has_value());
    EXPECT_TRUE(is_clear(sequence->slot_data(), kLarge.slot_bytes));
    EXPECT_TRUE(is_clear(sequence->page_data(0), kLarge.page_bytes));
    EXPECT_TRUE(is_clear(sequence->page_data(1), kLarge.page_bytes));
    EXPECT_TRUE(is_clear(snapshot->slot_data(), kLarge.slot_bytes));
    EXPECT_TRUE(is_clear(snapshot->tail_data(), kLarge.page_bytes));
    std::memset(sequence->slot_data(), 0x5a, kLarge.slot_bytes);
    for (std::size_t i = 0; i < 2; ++i) std::memset(sequence->page_data(i), 0x5a, kLarge.page_bytes);
    std::memset(snapshot->slot_data(), 0x5a, kLarge.slot_bytes);
    std::memset(snapshot->tail_data(), 0x5a, kLarge.page_bytes);
  }
}

TEST(StateStore, SharesFullPagesAndCopiesTails) {
  StateStore store(kSizes, {.pages = 20, .slots = 4});
  const Sequence source = filled(store, 2 * kPageTokens + 10);
  std::optional<Snapshot> snapshot = store.capture(source);
  std::optional<Sequence> restored = store.restore(*snapshot).sequence;
  ASSERT_TRUE(snapshot.has_value() && restored.has_value());
  EXPECT_EQ(store.pages().used(), 5U);  // two shared pages and three partial ones
  for (std::size_t page = 0; page < 2; ++page) {
    EXPECT_EQ(source.pages()[page], snapshot->pages()[page]);
    EXPECT_EQ(source.pages()[page], restored->pages()[page]);
    EXPECT_EQ(store.pages().references(source.pages()[page]), 3U);
  }
  const std::set<BlockId> tails = {source.pages()[2], snapshot->pages()[2], restored->pages()[2]};
  EXPECT_EQ(tails.size(), 3U);
  const std::set<BlockId> slots = {source.slot(), snapshot->slot(), restored->slot()};
  EXPECT_EQ(slots.size(), 3U);
  EXPECT_EQ(store.used_bytes(), 5 * kSizes.page_bytes + 3 * kSizes.slot_bytes);
}

TEST(StateStore, DoesNotCaptureReservedRoom) {
  StateStore store(kSizes, {.pages = 20, .slots = 4});
  Sequence source = filled(store, kPageTokens);
  ASSERT_TRUE(source.reserve(5 * kPageTokens));
  EXPECT_EQ(source.pages().size(), 6U);
  std::optional<Snapshot> snapshot = store.capture(source);
  ASSERT_TRUE(snapshot.has_value());
  EXPECT_EQ(snapshot->pages().size(), 1U);
}

TEST(StateStore, CountsBytesThatOnlyASnapshotHolds) {
  StateStore store(kSizes, {.pages = 20, .slots = 4});
  std::optional<Sequence> source = filled(store, 2 * kPageTokens + 1);
  std::optional<Snapshot> early = store.capture(*source);
  EXPECT_EQ(early->exclusive_bytes(), kSizes.slot_bytes + kSizes.page_bytes);  // its partial page
  for (std::uint32_t i = 0; i < kPageTokens; ++i) put(store, *source, i);
  std::optional<Snapshot> late = store.capture(*source);
  source.reset();
  EXPECT_EQ(early->exclusive_bytes(), kSizes.slot_bytes + kSizes.page_bytes);
  EXPECT_EQ(late->exclusive_bytes(),
            kSizes.slot_bytes + 2 * kSizes.page_bytes);  // the third page and its partial page
  const std::size_t before = store.used_bytes();
  const std::size_t promised = late->exclusive_bytes();
  late.reset();
  EXPECT_EQ(before - store.used_bytes(), promised);
  EXPECT_EQ(early->exclusive_bytes(), kSizes.slot_bytes + 3 * kSizes.page_bytes);
  early.reset();
  EXPECT_EQ(store.used_bytes(), 0U);
}

TEST(StateStore, RefusesWithNothingChanged) {
  StateStore store(kSizes, {.pages = 3, .slots = 3});
  Sequence source = filled(store, kPageTokens + 1);
  EXPECT_FALSE(source.reserve(3 * kPageTokens));
  EXPECT_EQ(store.pages().used(), 2U);
  EXPECT_EQ(source.pages().size(), 2U);
  std::optional<Snapshot> snapshot = store.capture(source);  // takes the last free page
  ASSERT_TRUE(snapshot.has_value());
  EXPECT_FALSE(store.capture(source).has_value()) << "no page for the tail";
  EXPECT_FALSE(store.restore(*snapshot).sequence.has_value()) << "no page for the tail";
  EXPECT_EQ(store.slots().used(), 2U);
  EXPECT_EQ(store.pages().references(source.pages()[0]), 2U);
  std::optional<Sequence> third = store.open();
  ASSERT_TRUE(third.has_value());
  EXPECT_FALSE(store.open().has_value()) << "no slot";
  EXPECT_FALSE(store.capture(*third).has_value()) << "no slot";
  EXPECT_EQ(tokens_of(store, source), counting(kPageTokens + 1));
}

TEST(StateStore, MovesWithoutCounting) {
  StateStore store(kSizes, {.pages = 10, .slots = 4});
  Sequence one = filled(store, 70);
  Sequence two = std::move(one);
  EXPECT_EQ(tokens_of(store, two), counting(70));
  Sequence three = filled(store, 10, 500);
  three = std::move(two);
  EXPECT_EQ(tokens_of(store, three), counting(70));
  EXPECT_EQ(store.slots().used(), 1U);
  EXPECT_EQ(store.pages().used(), 2U);
}

TEST(StateStore, LivesWithoutPagesOrSlotBytes) {
  StateStore recurrent({.page_bytes = 0, .slot_bytes = 24}, {.pages = 100, .slots = 2});
  Sequence source = filled(recurrent, 0);
  ASSERT_TRUE(source.reserve(100));
  source.advance(100);
  EXPECT_TRUE(recurrent.capture(source).has_value());
  StateStore attention({.page_bytes = kPageTokens * 4, .slot_bytes = 0}, {.pages = 100, .slots = 2});
  std::optional<Sequence> other = attention.open();
  ASSERT_TRUE(other.has_value() && other->reserve(70));
  other->advance(70);
  EXPECT_TRUE(attention.capture(*other).has_value());
  EXPECT_EQ(attention.used_bytes(), 2 * kSizes.page_bytes);
}

TEST(StateStore, CutsAStateWithoutSlot) {
  StateStore store({.page_bytes = kPageTokens * 4, .slot_bytes = 0}, {.pages = 20, .slots = 8});
  std::optional<Sequence> source = store.open();
  ASSERT_TRUE(source->reserve(150));
  for (std::size_t i = 0; i < 150; ++i) {
    std::memcpy(source->page_data(i / kPageTokens) + i % kPageTokens * 4, &i, 4);
  }
  source->advance(150);
  std::optional<Snapshot> snapshot = store.capture(*source);
  for (const std::size_t cut : {1, 63, 64, 65, 128, 140, 150}) {
    std::optional<Sequence> restored = store.restore(*snapshot, cut).sequence;
    ASSERT_TRUE(restored.has_value());
    EXPECT_EQ(restored->stored(), cut);
    EXPECT_EQ(restored->logical(), cut);
    EXPECT_EQ(restored->pages().size(), (cut + kPageTokens - 1) / kPageTokens);
    for (std::size_t i = 0; i < cut; ++i) {
      std::uint32_t value = 0;
      std::memcpy(&value, restored->page_data(i / kPageTokens) + i % kPageTokens * 4, 4);
      ASSERT_EQ(value, i);
    }
  }
}

TEST(StateStore, StaysWithinABudgetSharedWithOthers) {
  ByteBudget budget(10 * kSizes.page_bytes + 2 * kSizes.slot_bytes);
  StateStore one(kSizes, {.pages = 100, .slots = 100, .budget = &budget});
  StateStore other(kSizes, {.pages = 100, .slots = 100, .budget = &budget});
  std::optional<Sequence> first = one.open();
  std::optional<Sequence> second = other.open();
  ASSERT_TRUE(first->reserve(6 * kPageTokens));
  EXPECT_FALSE(second->reserve(5 * kPageTokens)) << "four pages are left";
  EXPECT_TRUE(second->reserve(4 * kPageTokens));
  EXPECT_EQ(budget.free(), 0U);
  EXPECT_FALSE(other.open().has_value());
  first.reset();
  EXPECT_EQ(budget.used(), other.used_bytes());
  std::optional<Sequence> third = other.open();
  ASSERT_TRUE(third.has_value());
  EXPECT_TRUE(third->reserve(6 * kPageTokens));
  EXPECT_LE(budget.resident(), budget.limit()) << "the first store gave its free memory back";
}

TEST(StateStore, PoisonsASequence) {
  StateStore store(kSizes, {.pages = 20, .slots = 4});
  const Sequence source = filled(store, 70);
  poison(store, source);
  EXPECT_FALSE(store.look_at_slot(source).finite);
  EXPECT_EQ(tokens_of(store, source)[63], 0xffffffff);
  EXPECT_EQ(tokens_of(store, source)[64], 65U) << "the second page is not touched";
}

constexpr StateSizes kLargeSlots{.page_bytes = kPageTokens * 4, .slot_bytes = 1024};

TEST(StateStore, TellsTheBudgetWhenTheMemoryHasNoBlock) {
  ByteBudget budget(100 * kLargeSlots.slot_bytes);
  ScarceMemory memory(2 * kLargeSlots.slot_bytes + kLargeSlots.page_bytes);
  StateStore store(kLargeSlots, {.pages = 100, .slots = 100, .budget = &budget, .memory = &memory});
  const auto room_for_slot = [&] { return budget.has_room(kLargeSlots.slot_bytes, kLargeSlots.slot_bytes); };
  const auto room_for_page = [&] { return budget.has_room(kLargeSlots.page_bytes, kLargeSlots.page_bytes); };
  std::optional<Sequence> first = store.open();
  std::optional<Sequence> second = store.open();
  ASSERT_TRUE(first.has_value() && second.has_value());
  const std::size_t used = budget.used();
  EXPECT_FALSE(store.open().has_value());
  EXPECT_EQ(budget.used(), used);
  EXPECT_EQ(budget.resident(), used);
  EXPECT_FALSE(room_for_slot());
  EXPECT_TRUE(room_for_page()) << "smaller blocks may be there";
  ASSERT_TRUE(first->reserve(1));
  EXPECT_FALSE(first->reserve(3 * kPageTokens));
  EXPECT_FALSE(room_for_page());
  second.reset();
  EXPECT_TRUE(room_for_page() && room_for_slot()) << "something was given";
  first->advance(1);
  EXPECT_FALSE(store.capture(*first).has_value()) << "no page for the tail";
  EXPECT_FALSE(room_for_page()) << "the slot that the attempt gave back changes nothing";
  first.reset();
  EXPECT_TRUE(room_for_page());
  EXPECT_EQ(budget.used(), 0U);
}

TEST(StateStore, GivesFreeBlocksBackBeforeItRefuses) {
  ByteBudget budget(100 * kLargeSlots.slot_bytes);
  ScarceMemory memory(kLargeSlots.slot_bytes);
  {
    StateStore one(kLargeSlots, {.pages = 100, .slots = 100, .budget = &budget, .memory = &memory});
    StateStore other(kLargeSlots, {.pages = 100, .slots = 100, .budget = &budget, .memory = &memory});
    ASSERT_TRUE(one.open().has_value());
    EXPECT_EQ(memory.used(), kLargeSlots.slot_bytes) << "kept for the next user";
    ASSERT_TRUE(other.open().has_value());
    ASSERT_TRUE(one.open().has_value());
    EXPECT_EQ(budget.resident(), kLargeSlots.slot_bytes);
  }
  EXPECT_EQ(memory.used(), 0U);
  EXPECT_EQ(budget.resident(), 0U);
}

TEST(SnapshotGroup, CountsSharedPagesOnce) {
  StateStore store(kSizes, {.pages = 20, .slots = 6});
  Sequence source = filled(store, 2 * kPageTokens);
  std::optional<Snapshot> early = store.capture(source);
  ASSERT_TRUE(source.reserve(10));
  source.advance(10);
  std::optional<Snapshot> late = store.capture(source);
  SnapshotGroup group(kSizes);
  group.add(*early);
  EXPECT_EQ(group.bytes(), kSizes.slot_bytes + 2 * kSizes.page_bytes);
  EXPECT_EQ(group.growth(*late), kSizes.slot_bytes + kSizes.page_bytes);
  group.add(*late);
  EXPECT_EQ(group.bytes(), 2 * kSizes.slot_bytes + 3 * kSizes.page_bytes);
  group.remove(*early);
  EXPECT_EQ(group.bytes(), kSizes.slot_bytes + 3 * kSizes.page_bytes);
  group.remove(*late);
  EXPECT_EQ(group.bytes(), 0U);
}

}  // namespace
}  // namespace reprise::gpu::test
