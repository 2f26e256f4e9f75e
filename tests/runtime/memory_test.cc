// Memory per actor, and release of pooled memory.

#include <unistd.h>
#include <fstream>
#include <random>

#include "runtime/detail/pool.h"
#include "tests/require.h"
#include "tests/runtime/probe.h"
#include "tests/sanitized.h"

namespace reprise::runtime {
namespace {

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

struct Touch {};
struct Touched {
  using Reply = int;
};
class Idler : public Actor {
 public:
  using Accepts = Messages<Touch, Touched>;
  Task<void> on(Touch) {
    auto pause = sleep_for(1ms);
    const Result<void> rested = co_await pause;
    touched_ += rested.ok() ? 1 : 0;
  }
  int on(Touched) { return touched_; }

 private:
  int touched_ = 0;
};

TEST(Memory, MemoryPerActorIsBoundedBeforeAndAfterTraffic) {
  if (kSanitized) REPRISE_SKIP_WITHOUT("unsanitized", "sanitizers change what memory costs");
  constexpr std::size_t kActors = 100'000;  // a million of these must fit in 4 GiB
  System system({.workers = 2});
  std::vector<RefOf<Idler>> actors;
  actors.reserve(kActors);
  const std::size_t before = resident_bytes();
  for (std::size_t i = 0; i < kActors; ++i) actors.push_back(system.spawn<Idler>());
  const std::size_t idle = (resident_bytes() - before) / kActors;
  for (const auto& actor : actors) actor.tell(Touch{});
  for (const auto& actor : actors) ASSERT_EQ(*actor.ask_blocking(Touched{}, 20s), 1);
  const std::size_t after = (resident_bytes() - before) / kActors;
  RecordProperty("bytes_idle", static_cast<int>(idle));
  RecordProperty("bytes_after_traffic", static_cast<int>(after));
  EXPECT_LT(idle, 2048U);
  EXPECT_LT(after, 4096U);
  std::printf("bytes an actor: %zu idle, %zu after traffic\n", idle, after);
}

TEST(Pool, BlocksWanderBetweenThreadsAndAreReused) {
  struct Block {
    void* memory;
    std::size_t size;
    unsigned char mark;
  };
  // One thread allocates and the other frees, so blocks return through the central store.
  std::vector<Block> blocks;
  std::mt19937 random(5);
  const std::size_t before = resident_bytes();
  for (int round = 0; round < 200; ++round) {
    blocks.clear();
    for (int i = 0; i < 2000; ++i) {
      const std::size_t size = 1 + random() % (kMaxPooled + 200);
      auto mark = static_cast<unsigned char>(random());
      void* memory = pool_allocate(size);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory) % alignof(std::max_align_t), 0U);
      std::fill_n(static_cast<unsigned char*>(memory), size, mark);
      blocks.push_back({memory, size, mark});
    }
    std::thread freer([&blocks] {
      for (const Block& block : blocks) {
        const auto* bytes = static_cast<const unsigned char*>(block.memory);
        for (std::size_t i = 0; i < block.size; ++i) ASSERT_EQ(bytes[i], block.mark);
        pool_free(block.memory, block.size);
      }
    });
    freer.join();
  }
  // 200 rounds of about 1.2 MB each must retain far less.
  if (!kSanitized) {
    EXPECT_LT(resident_bytes(), before + (64U << 20));
  }
}

}  // namespace
}  // namespace reprise::runtime
