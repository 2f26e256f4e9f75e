#pragma once
// Typed tests of sequences, snapshots and memory copies for any kind of block memory. Place is created for
// each test and has `is_here()` (this machine has such memory), `memory()`, `kSteps` (number of random
// operations), `kByteStep` (max distance of damaged bytes) and `kName`.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gpu/state/state_store.h"
#include "tests/require.h"
#include "tools/reliability/state_faults.h"

namespace reprise::gpu::test {

inline constexpr StateSizes kSizes{.page_bytes = kPageTokens * 4, .slot_bytes = 24};  // 4 bytes per token

/// Appends a token to the pages and the slot.
inline void put(const StateStore& store, Sequence& sequence, std::uint32_t value) {
  ASSERT_TRUE(sequence.reserve(1));
  const std::size_t at = sequence.stored();
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  store.memory().from_host(sequence.page_data(at / kPageTokens) + at % kPageTokens * 4, bytes, 4);
  store.memory().from_host(sequence.slot_data(), bytes, 4);
  sequence.advance(1);
}

inline std::vector<std::uint32_t> tokens_of(const StateStore& store, const Sequence& sequence) {
  std::vector<std::uint32_t> tokens(sequence.pages().size() * kPageTokens);
  auto* to = reinterpret_cast<std::byte*>(tokens.data());
  for (std::size_t i = 0; i < sequence.pages().size(); ++i) {
    store.memory().to_host(to + i * kSizes.page_bytes, sequence.page_data(i), kSizes.page_bytes);
  }
  tokens.resize(sequence.stored());
  return tokens;
}

inline std::vector<std::byte> slot_bytes_of(const StateStore& store, const Sequence& sequence) {
  std::vector<std::byte> slot(store.sizes().slot_bytes, std::byte{1});
  store.memory().to_host(slot.data(), sequence.slot_data(), slot.size());
  return slot;
}

inline std::uint32_t slot_of(const StateStore& store, const Sequence& sequence) {
  std::uint32_t value = 0;
  std::memcpy(&value, slot_bytes_of(store, sequence).data(), 4);
  return value;
}

inline Sequence filled(StateStore& store, std::size_t count, std::uint32_t first = 1) {
  std::optional<Sequence> sequence = store.open();
  EXPECT_TRUE(sequence.has_value());
  for (std::uint32_t i = 0; i < count; ++i) put(store, *sequence, first + i);
  return std::move(*sequence);
}

inline std::vector<std::uint32_t> counting(std::size_t count) {
  std::vector<std::uint32_t> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::uint32_t>(i + 1);
  return values;
}

struct PlaceNames {
  template <class Place>
  static std::string GetName(int) {
    return Place::kName;
  }
};

template <class Place>
class StateStoreContract : public testing::Test {
 protected:
  void SetUp() override {
    if (!Place::is_here()) REPRISE_SKIP_WITHOUT("gpu", "no GPU");
  }
};
TYPED_TEST_SUITE_P(StateStoreContract);

TYPED_TEST_P(StateStoreContract, OpensWithASlotOfZerosWhateverWasThereBefore) {
  TypeParam kind;
  StateStore store(kSizes, {.pages = 4, .slots = 1, .memory = &kind.memory()});
  poison(store, filled(store, 3));
  std::optional<Sequence> again = store.open();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(slot_bytes_of(store, *again), std::vector<std::byte>(kSizes.slot_bytes));
  EXPECT_EQ(again->stored(), 0U);
  EXPECT_EQ(again->logical(), 0U);
  EXPECT_TRUE(again->pages().empty());
}

TYPED_TEST_P(StateStoreContract, RestoresWhatWasCapturedAtEveryLength) {
  TypeParam kind;
  for (const std::size_t length : {0, 1, 63, 64, 65, 128, 150}) {
    StateStore store(kSizes, {.pages = 20, .slots = 4, .memory = &kind.memory()});
    Sequence source = filled(store, length);
    std::optional<Snapshot> snapshot = store.capture(source);
    ASSERT_TRUE(snapshot.has_value());
    for (std::uint32_t i = 0; i < 5; ++i) put(store, source, 9000 + i);  // must not reach the snapshot
    for (int time = 0; time < 2; ++time) {
      Restoration restoration = store.restore(*snapshot);
      ASSERT_TRUE(restoration.sequence.has_value()) << restoration.damaged;
      Sequence& restored = *restoration.sequence;
      EXPECT_EQ(restored.stored(), length);
      EXPECT_EQ(restored.logical(), length);
      EXPECT_EQ(tokens_of(store, restored), counting(length));
      EXPECT_EQ(slot_of(store, restored), length);
      put(store, restored, 7777);  // nor must this
    }
    EXPECT_EQ(tokens_of(store, source).size(), length + 5);
    EXPECT_EQ(slot_of(store, source), 9004U);
  }
}

TYPED_TEST_P(StateStoreContract, NoticesDamageInEveryByte) {
  TypeParam kind;
  for (const std::size_t slot_bytes : {std::size_t{24}, std::size_t{0}}) {
    for (const std::size_t length : {2 * kPageTokens, 2 * kPageTokens + 10}) {
      StateStore store({.page_bytes = kSizes.page_bytes, .slot_bytes = slot_bytes},
                       {.pages = 20, .slots = 4, .memory = &kind.memory()});
      std::optional<Sequence> source = store.open();
      ASSERT_TRUE(source.has_value() && source->reserve(length));
      source->advance(length);
      std::optional<Snapshot> snapshot = store.capture(*source);
      ASSERT_TRUE(snapshot.has_value());
      const std::size_t bytes = transfer_bytes(store.sizes(), length);
      const std::size_t pages = snapshot->pages().size();
      for (std::size_t at = 0; at < bytes; at += 1 + at % TypeParam::kByteStep) {
        EXPECT_FALSE(store.restore(*snapshot).damaged) << at;
        damage(store, *snapshot, at);
        const Restoration restoration = store.restore(*snapshot);
        EXPECT_TRUE(restoration.damaged) << at;
        EXPECT_FALSE(restoration.sequence.has_value());
        const std::size_t page = at / kSizes.page_bytes;
        EXPECT_EQ(store.is_intact(*snapshot, 0, pages, false), page >= pages) << at;
        EXPECT_EQ(store.is_intact(*snapshot, 1, 1, true), page != 1 && page < pages) << at;
        EXPECT_EQ(store.slots().used(), 2U) << "the refused copy was let go";
        damage(store, *snapshot, at);  // and back
      }
      EXPECT_TRUE(store.is_intact(*snapshot, 0, pages, true));
    }
  }
}

TYPED_TEST_P(StateStoreContract, LaterSnapshotsKeepAPagesFirstSum) {
  TypeParam kind;
  StateStore store(kSizes, {.pages = 20, .slots = 6, .memory = &kind.memory()});
  Sequence source = filled(store, kPageTokens);
  std::optional<Snapshot> early = store.capture(source);
  for (std::uint32_t i = 0; i < 10; ++i) put(store, source, i);
  damage(store, *early, 7);
  std::optional<Snapshot> late = store.capture(source);
  EXPECT_TRUE(store.restore(*late).damaged) << "the page was intact when it was summed";
  early.reset();
  late.reset();
  { const Sequence gone = std::move(source); }
  const Sequence other = filled(store, 2 * kPageTokens, 500);  // in the same blocks
  late = store.capture(other);
  EXPECT_FALSE(store.restore(*late).damaged);
}

TYPED_TEST_P(StateStoreContract, AShorterRestoreNeedsOnlyItsOwnPages) {
  TypeParam kind;
  StateStore store({.page_bytes = kSizes.page_bytes, .slot_bytes = 0},
                   {.pages = 20, .slots = 4, .memory = &kind.memory()});
  std::optional<Sequence> source = store.open();
  ASSERT_TRUE(source.has_value() && source->reserve(2 * kPageTokens));
  source->advance(2 * kPageTokens);
  std::optional<Snapshot> snapshot = store.capture(*source);
  ASSERT_TRUE(snapshot.has_value());
  damage(store, *snapshot, kSizes.page_bytes + 3);
  EXPECT_FALSE(store.restore(*snapshot, kPageTokens).damaged);
  EXPECT_FALSE(store.restore(*snapshot, 5).damaged);
  EXPECT_TRUE(store.restore(*snapshot, kPageTokens + 5).damaged) << "the copied tail was a full page";
}

TYPED_TEST_P(StateStoreContract, TellsAStateThatIsNotFinite) {
  TypeParam kind;
  BlockMemory& memory = kind.memory();
  for (const std::size_t size : {40, 1000, 3 << 20}) {
    StateStore store({.page_bytes = kSizes.page_bytes, .slot_bytes = size},
                     {.pages = 20, .slots = 4, .memory = &memory});
    std::optional<Sequence> source = store.open();
    ASSERT_TRUE(source.has_value());
    EXPECT_TRUE(store.capture(*source)->finite());
    const float bad[] = {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
    for (const float& value : bad) {
      for (const std::size_t at : {std::size_t{0}, size / 8 * 4, size - 4}) {
        const float zero = 0;
        memory.from_host(source->slot_data() + at, reinterpret_cast<const std::byte*>(&value), 4);
        EXPECT_FALSE(store.capture(*source)->finite()) << at << " of " << size;
        EXPECT_FALSE(store.look_at_slot(*source).finite);
        memory.from_host(source->slot_data() + at, reinterpret_cast<const std::byte*>(&zero), 4);
        EXPECT_TRUE(store.capture(*source)->finite());
      }
    }
  }
}

TYPED_TEST_P(StateStoreContract, SavesAndLoadsASequence) {
  TypeParam kind;
  StateStore store(kSizes, {.pages = 20, .slots = 4, .memory = &kind.memory()});
  for (const std::size_t length : {0, 1, 64, 100}) {
    SavedSequence saved;
    std::vector<std::byte> slot;
    {
      const Sequence source = filled(store, length);
      saved = store.save(source);
      slot = slot_bytes_of(store, source);
    }
    EXPECT_EQ(store.used_bytes(), 0U);
    std::optional<Sequence> loaded = store.load(saved);
    ASSERT_TRUE(loaded.has_value());
    EXPECT_EQ(loaded->stored(), length);
    EXPECT_EQ(tokens_of(store, *loaded), counting(length));
    EXPECT_EQ(slot_bytes_of(store, *loaded), slot);
    const SavedSequence again = store.save(*loaded);
    EXPECT_TRUE(std::ranges::equal(again.bytes.span(), saved.bytes.span()));
  }
}

TYPED_TEST_P(StateStoreContract, AnswersRandomOperationsAsACopyingModelWould) {
  TypeParam kind;
  StateStore store(kSizes, {.pages = 24, .slots = 12, .memory = &kind.memory()});
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
  for (int step = 0; step < TypeParam::kSteps; ++step) {
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
        Restoration restored = store.restore(from.real);
        EXPECT_FALSE(restored.damaged);
        refused += restored.sequence ? 0 : 1;
        if (restored.sequence) sequences.push_back({std::move(*restored.sequence), from.tokens});
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
          put(store, one.real, next);
          one.tokens.push_back(next++);
        }
        refused += fits ? 0 : 1;
      }
    }
    // All sequences still have their own tokens, and exactly the blocks they hold are in use.
    std::set<BlockId> held;
    for (const LiveSequence& one : sequences) {
      ASSERT_EQ(tokens_of(store, one.real), one.tokens);
      ASSERT_EQ(slot_of(store, one.real), one.tokens.empty() ? 0 : one.tokens.back());
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
  EXPECT_GT(refused, TypeParam::kSteps / 200) << "the bounds were never met";
  for (const LiveSnapshot& one : snapshots) {  // restores what they hold
    sequences.clear();
    std::optional<Sequence> restored = store.restore(one.real).sequence;
    EXPECT_TRUE(!restored || tokens_of(store, *restored) == one.tokens);
  }
  sequences.clear();
  snapshots.clear();
  EXPECT_EQ(store.used_bytes(), 0U);
  EXPECT_EQ(store.pages().used(), 0U);
  EXPECT_EQ(store.slots().used(), 0U);
}

TYPED_TEST_P(StateStoreContract, CopiesAndTellsEveryChange) {
  TypeParam kind;
  BlockMemory& memory = kind.memory();
  std::mt19937 random(3);
  for (const std::size_t size : {4, 8, 12, 16, 20, 60, 64, 68, 1000, 16384, 16388, 4 << 20, (4 << 20) + 12}) {
    std::vector<std::uint32_t> from(size / 4);
    for (std::uint32_t& word : from) word = random() & 0x3fffffff;  // finite
    std::byte* source = memory.take(size);
    std::byte* target = memory.take(size + 16);
    ASSERT_TRUE(source != nullptr && target != nullptr);
    memory.from_host(source, reinterpret_cast<const std::byte*>(from.data()), size);
    memory.fill(target, 0x55, size + 16);
    const BlockMemory::Copy copy{.to = target, .from = source, .bytes = size};
    CopyFigures figures;
    memory.copy({&copy, 1}, {&figures, 1});
    std::vector<std::uint32_t> to(size / 4 + 4);
    memory.to_host(reinterpret_cast<std::byte*>(to.data()), target, size + 16);
    EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin()));
    EXPECT_EQ(std::vector<std::uint32_t>(to.end() - 4, to.end()), std::vector<std::uint32_t>(4, 0x55555555))
        << "it wrote behind its end";
    EXPECT_TRUE(figures.finite);
    EXPECT_EQ(memory.look_at(source, size).checksum, figures.checksum);
    EXPECT_EQ(memory.look_at(target, size).checksum, figures.checksum);
    std::set<std::size_t> offsets = {0, size / 4 - 1};
    for (int i = 0; i < 20; ++i) offsets.insert(random() % (size / 4));
    for (const std::size_t at : offsets) {
      const std::uint32_t other = from[at] ^ (1U << random() % 30);
      memory.from_host(target + at * 4, reinterpret_cast<const std::byte*>(&other), 4);
      EXPECT_NE(memory.look_at(target, size).checksum, figures.checksum) << at << " of " << size;
      memory.from_host(target + at * 4, reinterpret_cast<const std::byte*>(&from[at]), 4);
    }
    if (size >= 64) {  // the same words in another order
      std::vector<std::uint32_t> swapped = from;
      std::swap_ranges(swapped.begin(), swapped.begin() + 2, swapped.begin() + 4);
      memory.from_host(target, reinterpret_cast<const std::byte*>(swapped.data()), size);
      EXPECT_NE(memory.look_at(target, size).checksum, figures.checksum);
    }
    memory.fill(source, 0, size);
    if (size >= 8) {
      EXPECT_NE(memory.look_at(source, size).checksum, memory.look_at(source, size - 4).checksum)
          << "zeros of another length";
    }
    memory.give(source, size);
    memory.give(target, size + 16);
  }
}

TYPED_TEST_P(StateStoreContract, FiguresOfManyCopiesAreEachItsOwn) {
  TypeParam kind;
  BlockMemory& memory = kind.memory();
  constexpr std::size_t kCopies = 83;  // more than one launch can take
  std::mt19937 random(5);
  std::vector<BlockMemory::Copy> copies;
  std::vector<CopyFigures> figures(kCopies);
  for (std::size_t i = 0; i < kCopies; ++i) {
    const std::size_t size = 4 * (1 + random() % 100000);
    std::byte* source = memory.take(size);
    copies.push_back({.to = memory.take(size), .from = source, .bytes = size});
    memory.fill(source, i % 3 == 1 ? 0xff : static_cast<int>(i), size);
  }
  memory.copy(copies, figures);
  for (std::size_t i = 0; i < kCopies; ++i) {
    EXPECT_EQ(figures[i].finite, i % 3 != 1) << i;
    EXPECT_EQ(figures[i].checksum, memory.look_at(copies[i].to, copies[i].bytes).checksum) << i;
    memory.give(copies[i].to, copies[i].bytes);
    memory.give(const_cast<std::byte*>(copies[i].from), copies[i].bytes);
  }
}

// Enough bytes that host memory reads them with several threads.
TYPED_TEST_P(StateStoreContract, ManyBlocksAreLookedAtAtOnce) {
  TypeParam kind;
  BlockMemory& memory = kind.memory();
  constexpr std::size_t kSize = 1 << 20;
  std::byte* const two[] = {memory.take(kSize), memory.take(kSize)};
  for (int i = 0; i < 2; ++i) memory.fill(two[i], 3 + i, kSize);
  std::vector<const std::byte*> blocks;
  for (int i = 0; i < 150; ++i) blocks.push_back(two[i % 7 == 0 ? 1 : 0]);
  std::vector<CopyFigures> figures(blocks.size());
  memory.look_at_all(blocks, kSize, figures);
  const std::uint64_t sums[] = {memory.look_at(two[0], kSize).checksum,
                                memory.look_at(two[1], kSize).checksum};
  EXPECT_NE(sums[0], sums[1]);
  for (int i = 0; i < 150; ++i) EXPECT_EQ(figures[i].checksum, sums[i % 7 == 0 ? 1 : 0]) << i;
  for (std::byte* const block : two) memory.give(block, kSize);
}

REGISTER_TYPED_TEST_SUITE_P(StateStoreContract, OpensWithASlotOfZerosWhateverWasThereBefore,
                            RestoresWhatWasCapturedAtEveryLength, NoticesDamageInEveryByte,
                            LaterSnapshotsKeepAPagesFirstSum, AShorterRestoreNeedsOnlyItsOwnPages,
                            TellsAStateThatIsNotFinite, SavesAndLoadsASequence,
                            AnswersRandomOperationsAsACopyingModelWould, CopiesAndTellsEveryChange,
                            FiguresOfManyCopiesAreEachItsOwn, ManyBlocksAreLookedAtAtOnce);

}  // namespace reprise::gpu::test
