// Sequences and snapshots: what is copied, what is shared, what is refused, and that nothing leaks; at last
// random operations against a model that copies everything.

#include "gpu/state_store.h"
#include "gpu/scarce_memory.h"
#include "gpu/snapshot_group.h"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

namespace reprise::gpu {
namespace {

constexpr StateSizes kSizes{.page_bytes = kPageTokens * 4, .slot_bytes = 24};  // 4 bytes a token

void put(Sequence& sequence, std::uint32_t value) {
  ASSERT_TRUE(sequence.reserve(1));
  const std::size_t at = sequence.stored();
  std::memcpy(sequence.page_data(at / kPageTokens) + at % kPageTokens * 4, &value, 4);
  std::memcpy(sequence.slot_data(), &value, 4);
  sequence.advance(1);
}

std::vector<std::uint32_t> tokens_of(const Sequence& sequence) {
  std::vector<std::uint32_t> tokens(sequence.stored());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::memcpy(&tokens[i], sequence.page_data(i / kPageTokens) + i % kPageTokens * 4, 4);
  }
  return tokens;
}

std::uint32_t slot_of(const Sequence& sequence) {
  std::uint32_t value;
  std::memcpy(&value, sequence.slot_data(), 4);
  return value;
}

Sequence filled(StateStore& store, std::size_t count, std::uint32_t first = 1) {
  std::optional<Sequence> sequence = store.open();
  EXPECT_TRUE(sequence.has_value());
  for (std::uint32_t i = 0; i < count; ++i) put(*sequence, first + i);
  return std::move(*sequence);
}

std::vector<std::uint32_t> counting(std::size_t count, std::uint32_t first = 1) {
  std::vector<std::uint32_t> values(count);
  for (std::uint32_t& value : values) value = first++;
  return values;
}

TEST(StateStore, ASnapshotOfAPlaceThatIsYetToBePassed) {
  StateStore store(kSizes, {.pages = 8, .slots = 3});
  filled(store, 1, 77);  // leaves what it wrote in a free slot
  Sequence sequence = filled(store, kPageTokens);
  ASSERT_TRUE(sequence.reserve(kPageTokens + 5));
  std::optional<Snapshot> snapshot = store.begin_capture(sequence, 2 * kPageTokens);
  ASSERT_TRUE(snapshot.has_value());
  EXPECT_EQ(*snapshot->slot_data(), std::byte{0}) << "whatever was there before";
  for (std::uint32_t i = 0; i < kPageTokens; ++i) put(sequence, 1000 + i);
  std::memcpy(snapshot->slot_data(), sequence.slot_data(), kSizes.slot_bytes);
  for (std::uint32_t i = 0; i < 5; ++i) put(sequence, 5000 + i);
  Snapshot* const written[] = {&*snapshot};
  store.end_captures(written);
  EXPECT_TRUE(snapshot->finite());
  EXPECT_EQ(snapshot->exclusive_bytes(), kSizes.slot_bytes) << "its pages are the sequence's too";
  Restoration restored = store.restore(*snapshot);
  ASSERT_TRUE(restored.sequence.has_value());
  EXPECT_EQ(restored.sequence->stored(), 2 * kPageTokens);
  EXPECT_EQ(restored.sequence->logical(), 2 * kPageTokens);
  EXPECT_EQ(slot_of(*restored.sequence), 1000 + kPageTokens - 1);
  EXPECT_FALSE(store.begin_capture(sequence, 3 * kPageTokens).has_value()) << "there is no slot left";
  restored.sequence.reset();
  store.damage(*snapshot);
  EXPECT_TRUE(store.restore(*snapshot).damaged);
  snapshot.reset();
  { const Sequence gone = std::move(sequence); }
  EXPECT_EQ(store.used_bytes(), 0U);
}

TEST(StateStore, OpensWithASlotOfZerosWhateverWasThereBefore) {
  StateStore store(kSizes, {.pages = 4, .slots = 1});
  filled(store, 3);
  std::optional<Sequence> again = store.open();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(std::vector<std::byte>(again->slot_data(), again->slot_data() + kSizes.slot_bytes),
            std::vector<std::byte>(kSizes.slot_bytes));
  EXPECT_EQ(again->stored(), 0U);
  EXPECT_EQ(again->logical(), 0U);
  EXPECT_TRUE(again->pages().empty());
}

// Large blocks are zeros when the system gives them, and are not filled then; those that come back to the store are.
TEST(StateStore, LargeBlocksAreZerosWhenTheyAreNewAndWhenTheyWereUsed) {
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

TEST(StateStore, RestoresWhatWasCapturedAtEveryLength) {
  for (const std::size_t length : {0, 1, 63, 64, 65, 128, 150}) {
    StateStore store(kSizes, {.pages = 20, .slots = 4});
    Sequence source = filled(store, length);
    std::optional<Snapshot> snapshot = store.capture(source);
    ASSERT_TRUE(snapshot.has_value());
    for (std::uint32_t i = 0; i < 5; ++i) put(source, 9000 + i);  // must not reach the snapshot
    for (int time = 0; time < 2; ++time) {
      std::optional<Sequence> restored = store.restore(*snapshot).sequence;
      ASSERT_TRUE(restored.has_value());
      EXPECT_EQ(restored->stored(), length);
      EXPECT_EQ(restored->logical(), length);
      EXPECT_EQ(tokens_of(*restored), counting(length));
      EXPECT_EQ(slot_of(*restored), length);
      put(*restored, 7777);  // nor must this
    }
    EXPECT_EQ(tokens_of(source).size(), length + 5);
    EXPECT_EQ(slot_of(source), 9004U);
  }
}

TEST(StateStore, SharesFullPagesAndCopiesTails) {
  StateStore store(kSizes, {.pages = 20, .slots = 4});
  const Sequence source = filled(store, 2 * kPageTokens + 10);
  std::optional<Snapshot> snapshot = store.capture(source);
  std::optional<Sequence> restored = store.restore(*snapshot).sequence;
  ASSERT_TRUE(snapshot.has_value() && restored.has_value());
  EXPECT_EQ(store.pages().used(), 5U);  // two shared ones and three tails
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
  EXPECT_EQ(early->exclusive_bytes(), kSizes.slot_bytes + kSizes.page_bytes);  // its tail
  for (std::uint32_t i = 0; i < kPageTokens; ++i) put(*source, i);
  std::optional<Snapshot> late = store.capture(*source);
  source.reset();
  EXPECT_EQ(early->exclusive_bytes(), kSizes.slot_bytes + kSizes.page_bytes);
  EXPECT_EQ(late->exclusive_bytes(),
            kSizes.slot_bytes + 2 * kSizes.page_bytes);  // the third page, and its tail
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
  std::optional<Snapshot> snapshot = store.capture(source);  // takes the last page
  ASSERT_TRUE(snapshot.has_value());
  EXPECT_FALSE(store.capture(source).has_value()) << "no page for the tail";
  EXPECT_FALSE(store.restore(*snapshot).sequence.has_value()) << "no page for the tail";
  EXPECT_EQ(store.slots().used(), 2U);
  EXPECT_EQ(store.pages().references(source.pages()[0]), 2U);
  std::optional<Sequence> third = store.open();
  ASSERT_TRUE(third.has_value());
  EXPECT_FALSE(store.open().has_value()) << "no slot";
  EXPECT_FALSE(store.capture(*third).has_value()) << "no slot";
  EXPECT_EQ(tokens_of(source), counting(kPageTokens + 1));
}

TEST(StateStore, MovesWithoutCounting) {
  StateStore store(kSizes, {.pages = 10, .slots = 4});
  Sequence one = filled(store, 70);
  Sequence two = std::move(one);
  EXPECT_EQ(tokens_of(two), counting(70));
  Sequence three = filled(store, 10, 500);
  three = std::move(two);
  EXPECT_EQ(tokens_of(three), counting(70));
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

TEST(StateStore, AnswersRandomOperationsAsACopyingModelWould) {
  StateStore store(kSizes, {.pages = 24, .slots = 12});
  struct LiveSequence {
    Sequence real;
    std::vector<std::uint32_t> tokens;
  };
  struct LiveSnapshot {
    Snapshot real;
    std::vector<std::uint32_t> tokens;
  };
  std::vector<LiveSequence> sequences;
  std::vector<LiveSnapshot> snapshots;
  std::mt19937 random(1);
  std::uint32_t next = 1;
  int refused = 0;
  const auto drop = [&](auto& list) {
    if (!list.empty()) list.erase(list.begin() + static_cast<std::ptrdiff_t>(random() % list.size()));
  };
  for (int step = 0; step < 20000; ++step) {
    const std::size_t free_slots = 12 - sequences.size() - snapshots.size();
    switch (random() % 8) {
      case 0: {
        std::optional<Sequence> opened = store.open();
        ASSERT_EQ(opened.has_value(), free_slots > 0);
        if (opened) sequences.push_back({std::move(*opened), {}});
        break;
      }
      case 1:
        drop(sequences);
        break;
      case 2:
        drop(snapshots);
        break;
      case 3: {
        if (sequences.empty()) break;
        const LiveSequence& from = sequences[random() % sequences.size()];
        const bool fits =
            free_slots > 0 && (from.tokens.size() % kPageTokens == 0 || store.pages().used() < 24);
        std::optional<Snapshot> taken = store.capture(from.real);
        ASSERT_EQ(taken.has_value(), fits);
        if (taken) snapshots.push_back({std::move(*taken), from.tokens});
        refused += taken ? 0 : 1;
        break;
      }
      case 4: {
        if (snapshots.empty()) break;
        const LiveSnapshot& from = snapshots[random() % snapshots.size()];
        std::optional<Sequence> restored = store.restore(from.real).sequence;
        if (restored) sequences.push_back({std::move(*restored), from.tokens});
        refused += restored ? 0 : 1;
        break;
      }
      default: {
        if (sequences.empty()) break;
        LiveSequence& one = sequences[random() % sequences.size()];
        const std::size_t count = random() % 40;
        const std::size_t wanted = (one.tokens.size() + count + kPageTokens - 1) / kPageTokens;
        const std::size_t held = one.real.pages().size();
        const bool fits = wanted <= held || wanted - held <= 24 - store.pages().used();
        ASSERT_EQ(one.real.reserve(count), fits);
        for (std::size_t i = 0; fits && i < count; ++i) {
          put(one.real, next);
          one.tokens.push_back(next++);
        }
        refused += fits ? 0 : 1;
      }
    }
    // Everybody still has their own tokens, and the blocks in use are those that somebody holds.
    std::set<BlockId> held;
    for (const LiveSequence& one : sequences) {
      ASSERT_EQ(tokens_of(one.real), one.tokens);
      ASSERT_EQ(slot_of(one.real), one.tokens.empty() ? 0 : one.tokens.back());
      held.insert(one.real.pages().begin(), one.real.pages().end());
    }
    for (const LiveSnapshot& one : snapshots) held.insert(one.real.pages().begin(), one.real.pages().end());
    ASSERT_EQ(store.pages().used(), held.size());
    ASSERT_EQ(store.slots().used(), sequences.size() + snapshots.size());
    for (const LiveSnapshot& one : snapshots) {
      std::size_t exclusive = kSizes.slot_bytes;
      for (const BlockId page : one.real.pages()) {
        std::size_t holders = 0;
        const auto count = [&](const HeldState& state) {
          for (const BlockId other : state.pages()) holders += other == page ? 1 : 0;
        };
        for (const LiveSequence& other : sequences) count(other.real);
        for (const LiveSnapshot& other : snapshots) count(other.real);
        if (holders == 1) exclusive += kSizes.page_bytes;
      }
      ASSERT_EQ(one.real.exclusive_bytes(), exclusive);
    }
  }
  EXPECT_GT(refused, 100) << "the bounds were never met";
  for (const LiveSnapshot& one : snapshots) {  // what they hold can still be had
    sequences.clear();
    std::optional<Sequence> restored = store.restore(one.real).sequence;
    EXPECT_TRUE(!restored || tokens_of(*restored) == one.tokens);
  }
  sequences.clear();
  snapshots.clear();
  EXPECT_EQ(store.used_bytes(), 0U);
  EXPECT_EQ(store.pages().used(), 0U);
  EXPECT_EQ(store.slots().used(), 0U);
}

TEST(StateStore, NoticesADamagedSnapshot) {
  StateStore store(kSizes, {.pages = 20, .slots = 4});
  Sequence source = filled(store, 100);
  std::optional<Snapshot> snapshot = store.capture(source);
  ASSERT_TRUE(snapshot.has_value());
  EXPECT_FALSE(store.restore(*snapshot).damaged);
  store.damage(*snapshot);
  const Restoration restoration = store.restore(*snapshot);
  EXPECT_TRUE(restoration.damaged);
  EXPECT_FALSE(restoration.sequence.has_value());
  EXPECT_EQ(store.slots().used(), 2U) << "the refused copy was let go";
}

TEST(StateStore, TellsAStateThatIsNotFinite) {
  StateStore store({.page_bytes = kPageTokens * 4, .slot_bytes = 40}, {.pages = 20, .slots = 4});
  std::optional<Sequence> source = store.open();
  EXPECT_TRUE(store.capture(*source)->finite());
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(source->slot_data() + 36, &infinity, sizeof infinity);
  EXPECT_FALSE(store.capture(*source)->finite());
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

TEST(StateStore, SavesAndLoadsASequence) {
  StateStore store(kSizes, {.pages = 20, .slots = 4});
  for (const std::size_t length : {0, 1, 64, 100}) {
    SavedSequence saved;
    std::vector<std::byte> slot(kSizes.slot_bytes);
    {
      Sequence source = filled(store, length);
      saved = store.save(source);
      std::memcpy(slot.data(), source.slot_data(), slot.size());
    }
    EXPECT_EQ(store.used_bytes(), 0U);
    std::optional<Sequence> loaded = store.load(saved);
    ASSERT_TRUE(loaded.has_value());
    EXPECT_EQ(loaded->stored(), length);
    EXPECT_EQ(std::memcmp(slot.data(), loaded->slot_data(), slot.size()), 0);
    const SavedSequence again = store.save(*loaded);
    EXPECT_TRUE(std::ranges::equal(again.bytes.span(), saved.bytes.span()));
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
  store.poison(source);
  EXPECT_FALSE(store.look_at_slot(source).finite);
  EXPECT_EQ(tokens_of(source)[63], 0xffffffff);
  EXPECT_EQ(tokens_of(source)[64], 65U) << "the second page is not touched";
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

TEST(CheckedCopy, CopiesAndTellsEveryChange) {
  for (const std::size_t size : {4, 60, 64, 68, 1000, 4096}) {
    std::vector<std::byte> from(size);
    for (std::size_t i = 0; i < size; ++i) from[i] = static_cast<std::byte>(i * 7 % 64);
    std::vector<std::byte> to(size);
    const CopyFigures figures = checked_copy(to.data(), from.data(), size);
    EXPECT_EQ(to, from);
    EXPECT_TRUE(figures.finite);
    EXPECT_EQ(look_at(from.data(), size).checksum, figures.checksum);
    for (std::size_t i = 0; i < size; i += 13) {
      to[i] ^= std::byte{4};
      EXPECT_NE(look_at(to.data(), size).checksum, figures.checksum);
      to[i] ^= std::byte{4};
    }
  }
}

}  // namespace
}  // namespace reprise::gpu
