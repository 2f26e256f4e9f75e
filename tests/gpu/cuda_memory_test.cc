// The state store on a GPU's memory: what tests/gpu/state_store_test.cc says of the host's, and the copies
// below it. Without a GPU all of it is skipped.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <random>
#include <set>

#include "gpu/cuda/device_memory.h"
#include "gpu/cuda/small_copy.h"
#include "gpu/devices.h"
#include "gpu/state_store.h"
#include "tests/require.h"

namespace reprise::gpu::cuda {
namespace {

constexpr StateSizes kSizes{.page_bytes = kPageTokens * 4, .slot_bytes = 24};  // 4 bytes a token

class CudaMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    if (list_devices().empty()) REPRISE_SKIP_WITHOUT("gpu", "no GPU");
    use_device(0);
    make_arena(256 << 20);
  }

  void make_arena(std::size_t size) {
    memory_.reset();
    arena_ = std::make_unique<Arena>(size);
    memory_ = std::make_unique<DeviceMemory>(*arena_);
  }

  void put(Sequence& sequence, std::uint32_t value) {
    ASSERT_TRUE(sequence.reserve(1));
    const std::size_t at = sequence.stored();
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    memory_->from_host(sequence.page_data(at / kPageTokens) + at % kPageTokens * 4, bytes, 4);
    memory_->from_host(sequence.slot_data(), bytes, 4);
    sequence.advance(1);
  }

  std::vector<std::uint32_t> tokens_of(const Sequence& sequence) {
    std::vector<std::uint32_t> tokens(sequence.pages().size() * kPageTokens);
    auto* to = reinterpret_cast<std::byte*>(tokens.data());
    for (std::size_t i = 0; i < sequence.pages().size(); ++i) {
      memory_->to_host(to + i * kSizes.page_bytes, sequence.page_data(i), kSizes.page_bytes);
    }
    tokens.resize(sequence.stored());
    return tokens;
  }

  std::uint32_t slot_of(const Sequence& sequence) {
    std::uint32_t value = 0;
    memory_->to_host(reinterpret_cast<std::byte*>(&value), sequence.slot_data(), 4);
    return value;
  }

  Sequence filled(StateStore& store, std::size_t count) {
    std::optional<Sequence> sequence = store.open();
    EXPECT_TRUE(sequence.has_value());
    for (std::uint32_t i = 0; i < count; ++i) put(*sequence, 1 + i);
    return std::move(*sequence);
  }

  static std::vector<std::uint32_t> counting(std::size_t count) {
    std::vector<std::uint32_t> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::uint32_t>(i + 1);
    return values;
  }

  std::unique_ptr<Arena> arena_;
  std::unique_ptr<DeviceMemory> memory_;
};

TEST_F(CudaMemoryTest, OpensWithASlotOfZerosWhateverWasThereBefore) {
  StateStore store(kSizes, {.pages = 4, .slots = 1, .memory = memory_.get()});
  store.poison(filled(store, 3));
  std::optional<Sequence> again = store.open();
  ASSERT_TRUE(again.has_value());
  std::vector<std::byte> slot(kSizes.slot_bytes, std::byte{1});
  memory_->to_host(slot.data(), again->slot_data(), slot.size());
  EXPECT_EQ(slot, std::vector<std::byte>(kSizes.slot_bytes));
}

TEST_F(CudaMemoryTest, RestoresWhatWasCapturedAtEveryLength) {
  for (const std::size_t length : {0, 1, 63, 64, 65, 128, 150}) {
    StateStore store(kSizes, {.pages = 20, .slots = 4, .memory = memory_.get()});
    Sequence source = filled(store, length);
    std::optional<Snapshot> snapshot = store.capture(source);
    ASSERT_TRUE(snapshot.has_value());
    for (std::uint32_t i = 0; i < 5; ++i) put(source, 9000 + i);  // must not reach the snapshot
    for (int time = 0; time < 2; ++time) {
      const Restoration restoration = store.restore(*snapshot);
      ASSERT_TRUE(restoration.sequence.has_value()) << restoration.damaged;
      EXPECT_EQ(restoration.sequence->stored(), length);
      EXPECT_EQ(tokens_of(*restoration.sequence), counting(length));
      EXPECT_EQ(slot_of(*restoration.sequence), length);
    }
    EXPECT_EQ(slot_of(source), 9004U);
  }
}

TEST_F(CudaMemoryTest, NoticesADamagedSnapshot) {
  for (const std::size_t slot_bytes : {std::size_t{24}, std::size_t{0}}) {
    StateStore store({.page_bytes = kSizes.page_bytes, .slot_bytes = slot_bytes},
                     {.pages = 20, .slots = 4, .memory = memory_.get()});
    std::optional<Sequence> source = store.open();
    ASSERT_TRUE(source.has_value() && source->reserve(100));
    source->advance(100);
    std::optional<Snapshot> snapshot = store.capture(*source);
    ASSERT_TRUE(snapshot.has_value());
    EXPECT_FALSE(store.restore(*snapshot).damaged);
    store.damage(*snapshot);
    const Restoration restoration = store.restore(*snapshot);
    EXPECT_TRUE(restoration.damaged);
    EXPECT_FALSE(restoration.sequence.has_value());
    EXPECT_EQ(store.slots().used(), 2U) << "the refused copy was let go";
  }
}

TEST_F(CudaMemoryTest, TellsAStateThatIsNotFinite) {
  for (const std::size_t size : {40, 1000, 3 << 20}) {
    StateStore store({.page_bytes = kSizes.page_bytes, .slot_bytes = size},
                     {.pages = 20, .slots = 4, .memory = memory_.get()});
    std::optional<Sequence> source = store.open();
    ASSERT_TRUE(source.has_value());
    EXPECT_TRUE(store.capture(*source)->finite());
    const float bad[] = {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
    for (const float& value : bad) {
      for (const std::size_t at : {std::size_t{0}, size / 8 * 4, size - 4}) {
        const float zero = 0;
        memory_->from_host(source->slot_data() + at, reinterpret_cast<const std::byte*>(&value), 4);
        EXPECT_FALSE(store.capture(*source)->finite()) << at << " of " << size;
        EXPECT_FALSE(store.look_at_slot(*source).finite);
        memory_->from_host(source->slot_data() + at, reinterpret_cast<const std::byte*>(&zero), 4);
        EXPECT_TRUE(store.capture(*source)->finite());
      }
    }
  }
}

TEST_F(CudaMemoryTest, SavesAndLoadsASequence) {
  StateStore store(kSizes, {.pages = 20, .slots = 4, .memory = memory_.get()});
  for (const std::size_t length : {0, 1, 64, 100}) {
    SavedSequence saved;
    {
      const Sequence source = filled(store, length);
      saved = store.save(source);
    }
    EXPECT_EQ(store.used_bytes(), 0U);
    std::optional<Sequence> loaded = store.load(saved);
    ASSERT_TRUE(loaded.has_value());
    EXPECT_EQ(tokens_of(*loaded), counting(length));
    EXPECT_EQ(slot_of(*loaded), length);
    const SavedSequence again = store.save(*loaded);
    EXPECT_TRUE(std::ranges::equal(again.bytes.span(), saved.bytes.span()));
  }
}

TEST_F(CudaMemoryTest, AnswersRandomOperationsAsACopyingModelWould) {
  StateStore store(kSizes, {.pages = 24, .slots = 12, .memory = memory_.get()});
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
  const auto drop = [&](auto& list) {
    if (!list.empty()) list.erase(list.begin() + static_cast<std::ptrdiff_t>(random() % list.size()));
  };
  for (int step = 0; step < 1000; ++step) {
    switch (random() % 8) {
      case 0:
        if (std::optional<Sequence> opened = store.open()) sequences.push_back({std::move(*opened), {}});
        break;
      case 1:
        drop(sequences);
        break;
      case 2:
        drop(snapshots);
        break;
      case 3: {
        if (sequences.empty()) break;
        const LiveSequence& from = sequences[random() % sequences.size()];
        std::optional<Snapshot> taken = store.capture(from.real);
        if (taken) snapshots.push_back({std::move(*taken), from.tokens});
        break;
      }
      case 4: {
        if (snapshots.empty()) break;
        const LiveSnapshot& from = snapshots[random() % snapshots.size()];
        Restoration restored = store.restore(from.real);
        EXPECT_FALSE(restored.damaged);
        if (restored.sequence) sequences.push_back({std::move(*restored.sequence), from.tokens});
        break;
      }
      default: {
        if (sequences.empty()) break;
        LiveSequence& one = sequences[random() % sequences.size()];
        const std::size_t count = random() % 20;
        if (!one.real.reserve(count)) break;
        for (std::size_t i = 0; i < count; ++i) {
          put(one.real, next);
          one.tokens.push_back(next++);
        }
      }
    }
    for (const LiveSequence& one : sequences) {
      ASSERT_EQ(tokens_of(one.real), one.tokens);
      ASSERT_EQ(slot_of(one.real), one.tokens.empty() ? 0 : one.tokens.back());
    }
  }
  EXPECT_GT(next, 500U);
}

TEST_F(CudaMemoryTest, ReturnsItsBlocksToTheArena) {
  make_arena(40 << 20);
  ByteBudget budget(100 << 20);  // more than there is
  const StateSizes sizes{.page_bytes = 1 << 20, .slot_bytes = 10 << 20};
  {
    StateStore store(sizes, {.pages = 100, .slots = 100, .budget = &budget, .memory = memory_.get()});
    std::optional<Sequence> first = store.open();
    std::optional<Sequence> second = store.open();
    ASSERT_TRUE(first.has_value() && second.has_value());
    EXPECT_LT(second->slot_data(), first->slot_data()) << "slots from the high end";
    ASSERT_TRUE(first->reserve(15 * kPageTokens));
    EXPECT_LT(first->page_data(0), first->page_data(14)) << "pages from the low end";
    EXPECT_FALSE(store.open().has_value()) << "5 MiB are left";
    EXPECT_FALSE(budget.has_room(sizes.slot_bytes, sizes.slot_bytes));
    second.reset();
    EXPECT_TRUE(budget.has_room(sizes.slot_bytes, sizes.slot_bytes));
    EXPECT_TRUE(store.open().has_value());
    EXPECT_GT(arena_->used(), 0U);
  }
  EXPECT_EQ(arena_->used(), 0U);
  EXPECT_EQ(arena_->largest_free(), arena_->size());
}

TEST_F(CudaMemoryTest, CopiesAndTellsEveryChange) {
  std::mt19937 random(3);
  for (const std::size_t size : {4, 8, 12, 16, 20, 60, 64, 1000, 16384, 16388, 4 << 20, (4 << 20) + 12}) {
    std::vector<std::uint32_t> from(size / 4);
    for (std::uint32_t& word : from) word = random() & 0x3fffffff;  // finite
    std::byte* source = memory_->take(size);
    std::byte* target = memory_->take(size + 16);
    ASSERT_TRUE(source != nullptr && target != nullptr);
    memory_->from_host(source, reinterpret_cast<const std::byte*>(from.data()), size);
    memory_->fill(target, 0x55, size + 16);
    const BlockMemory::Copy copy{.to = target, .from = source, .bytes = size};
    CopyFigures figures;
    memory_->copy({&copy, 1}, {&figures, 1});
    std::vector<std::uint32_t> to(size / 4 + 4);
    memory_->to_host(reinterpret_cast<std::byte*>(to.data()), target, size + 16);
    EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin()));
    EXPECT_EQ(std::vector<std::uint32_t>(to.end() - 4, to.end()), std::vector<std::uint32_t>(4, 0x55555555))
        << "it wrote behind its end";
    EXPECT_TRUE(figures.finite);
    EXPECT_EQ(memory_->look_at(source, size).checksum, figures.checksum);
    EXPECT_EQ(memory_->look_at(target, size).checksum, figures.checksum);
    std::set<std::size_t> places = {0, size / 4 - 1};
    for (int i = 0; i < 20; ++i) places.insert(random() % (size / 4));
    for (const std::size_t place : places) {
      const std::uint32_t other = from[place] ^ (1U << random() % 30);
      memory_->from_host(target + place * 4, reinterpret_cast<const std::byte*>(&other), 4);
      EXPECT_NE(memory_->look_at(target, size).checksum, figures.checksum) << place << " of " << size;
      memory_->from_host(target + place * 4, reinterpret_cast<const std::byte*>(&from[place]), 4);
    }
    if (size >= 64) {  // the same words in another order
      std::vector<std::uint32_t> swapped = from;
      std::swap_ranges(swapped.begin(), swapped.begin() + 2, swapped.begin() + 4);
      memory_->from_host(target, reinterpret_cast<const std::byte*>(swapped.data()), size);
      EXPECT_NE(memory_->look_at(target, size).checksum, figures.checksum);
    }
    memory_->fill(source, 0, size);
    if (size >= 8) {
      EXPECT_NE(memory_->look_at(source, size).checksum, memory_->look_at(source, size - 4).checksum)
          << "zeros of another length";
    }
    memory_->give(source, size);
    memory_->give(target, size + 16);
  }
  EXPECT_EQ(arena_->used(), 0U);
}

TEST_F(CudaMemoryTest, FiguresOfManyCopiesAreEachItsOwn) {
  constexpr std::size_t kCopies = 19;  // more than one launch takes
  std::mt19937 random(5);
  std::vector<BlockMemory::Copy> copies;
  std::vector<CopyFigures> figures(kCopies);
  for (std::size_t i = 0; i < kCopies; ++i) {
    const std::size_t size = 4 * (1 + random() % 200000);
    copies.push_back({.to = memory_->take(size), .from = memory_->take(size), .bytes = size});
    auto* source = const_cast<std::byte*>(copies[i].from);
    memory_->fill(source, i % 3 == 1 ? 0xff : static_cast<int>(i), size);
  }
  memory_->copy(copies, figures);
  for (std::size_t i = 0; i < kCopies; ++i) {
    EXPECT_EQ(figures[i].finite, i % 3 != 1) << i;
    EXPECT_EQ(figures[i].checksum, memory_->look_at(copies[i].to, copies[i].bytes).checksum) << i;
  }
}

TEST_F(CudaMemoryTest, SmallCopiesBringEveryByte) {
  Stream stream;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{16}, std::size_t{4097}, kMostSmallBytes}) {
    const std::size_t room = (bytes + 15) / 16 * 16;
    const PinnedBytes from(room);
    for (std::size_t i = 0; i < room; ++i) from.data()[i] = static_cast<std::byte>(i * 7 + i / 251);
    const DeviceBytes to(room);
    std::vector<std::byte> got(bytes);
    copy_small_to_device(to.data(), from.data(), bytes, stream.handle());
    copy_to_host(got.data(), to.data(), bytes, stream.handle());
    stream.wait();
    EXPECT_TRUE(std::equal(got.begin(), got.end(), from.data())) << bytes;
  }
}

TEST_F(CudaMemoryTest, TimesCopiesOfSlots) {
  CheckedCopier copier;
  Stream stream(Stream::Priority::kHigh);
  for (const std::size_t megabytes : {20, 51}) {
    const std::size_t size = megabytes * 1000 * 1000;
    std::byte* from = memory_->take(size);
    std::byte* to = memory_->take(size);
    ASSERT_TRUE(from != nullptr && to != nullptr);
    memory_->fill(from, 1, size);
    const BlockMemory::Copy copy{.to = to, .from = from, .bytes = size};
    CopyFigures figures;
    memory_->copy({&copy, 1}, {&figures, 1});
    constexpr int kTimes = 50;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kTimes; ++i) memory_->copy({&copy, 1}, {&figures, 1});
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    Stopwatch watch;
    watch.start(stream.handle());
    for (int i = 0; i < kTimes; ++i) copier.launch({&copy, 1}, stream.handle());
    watch.stop(stream.handle());
    const double kernel = watch.milliseconds() / 1000;
    stream.wait();
    EXPECT_EQ(copier.figures(0).checksum, figures.checksum) << "totals were left over";
    const auto gigabytes = static_cast<double>(size) * kTimes / 1e9;
    std::printf("copy of %zu MB: %.1f us waited for (%.0f GB/s), %.1f us on the GPU (%.0f GB/s)\n", megabytes,
                waited.count() / kTimes * 1e6, gigabytes / waited.count(), kernel / kTimes * 1e6,
                gigabytes / kernel);
    memory_->give(from, size);
    memory_->give(to, size);
  }
}

}  // namespace
}  // namespace reprise::gpu::cuda
