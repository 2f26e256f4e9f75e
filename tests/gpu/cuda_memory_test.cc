// The state store in GPU memory, and the copies it uses.

#include <memory>

#include "gpu/cuda/memory/device_memory.h"
#include "gpu/devices.h"
#include "tests/gpu/state_store_contract.h"
#include "tests/require.h"

namespace reprise::gpu::test {
namespace {

using cuda::Arena;
using cuda::DeviceMemory;

/// An arena on the first GPU, and block memory in it.
class OnGpu {
 public:
  static constexpr int kSteps = 1000;
  static constexpr std::size_t kByteStep = 13;
  static constexpr const char* kName = "Gpu";
  static bool is_here() { return !list_devices().empty(); }

  explicit OnGpu(std::size_t bytes = 256 << 20) {
    cuda::use_device(0);
    arena_ = std::make_unique<Arena>(bytes);
    memory_ = std::make_unique<DeviceMemory>(*arena_);
  }
  ~OnGpu() {
    EXPECT_EQ(memory_->used(), 0U) << "all of it was given back";
    EXPECT_EQ(arena_->used(), 0U);
    EXPECT_EQ(arena_->largest_free(), arena_->size());
  }
  DeviceMemory& memory() { return *memory_; }
  const Arena& arena() const { return *arena_; }

 private:
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<DeviceMemory> memory_;
};
INSTANTIATE_TYPED_TEST_SUITE_P(In, StateStoreContract, OnGpu, PlaceNames);

TEST(CudaMemory, ReturnsItsBlocksToTheArena) {
  if (!OnGpu::is_here()) REPRISE_SKIP_WITHOUT("gpu", "no GPU");
  OnGpu gpu_memory(40 << 20);
  ByteBudget budget(100 << 20);  // more than the arena has
  const StateSizes sizes{.page_bytes = 1 << 20, .slot_bytes = 10 << 20};
  StateStore store(sizes, {.pages = 100, .slots = 100, .budget = &budget, .memory = &gpu_memory.memory()});
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
  EXPECT_GT(gpu_memory.arena().used(), 0U);
}

TEST(CudaMemory, SmallCopiesBringEveryByte) {
  if (!OnGpu::is_here()) REPRISE_SKIP_WITHOUT("gpu", "no GPU");
  cuda::use_device(0);
  cuda::Stream stream;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{16}, std::size_t{4097}, cuda::kMaxSmallBytes}) {
    const std::size_t padded = (bytes + 15) / 16 * 16;
    const cuda::PinnedBytes from(padded);
    for (std::size_t i = 0; i < padded; ++i) from.data()[i] = static_cast<std::byte>(i * 7 + i / 251);
    const cuda::DeviceBytes to(padded);
    std::vector<std::byte> got(bytes);
    cuda::copy_small_to_device(to.data(), from.data(), bytes, stream.handle());
    cuda::copy_to_host(got.data(), to.data(), bytes, stream.handle());
    stream.wait();
    EXPECT_TRUE(std::equal(got.begin(), got.end(), from.data())) << bytes;
  }
}

}  // namespace
}  // namespace reprise::gpu::test
