// How often the engine asks the allocator, for a request and for a token: numbers that noise moves little. Each has a limit
// a little above what it is now; whoever makes one worse sees it here, and whoever makes one better lowers its limit.
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/actors/engine_harness.h"
#include "tests/sanitized.h"

namespace {

std::atomic<std::uint64_t> allocations{0};

// Kept out of line: the compiler should not pair what is inside with the operators around it.
[[gnu::noinline]] void* take(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void give_back(void* memory) {
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) {
  return take(size);
}
void operator delete(void* memory) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  give_back(memory);
}

namespace reprise::actors {
namespace {

constexpr std::uint32_t kRequests = 20;
constexpr std::uint32_t kLong = 65, kShort = 1;

/// Of a request of 200 tokens, in the engine and its reader here.
double allocations_of(EngineHarness& harness, std::uint32_t max_tokens, std::uint32_t seed) {
  const auto ask = [&](std::uint32_t which) {
    protocol::GenerateRequest request = EngineHarness::request(random_tokens(200, seed + which), max_tokens);
    request.sampling.logprobs = 0;
    EXPECT_FALSE(harness.ask(std::move(request)).error);
    EXPECT_TRUE(harness.eventually(
        [&] { return harness.engine().running_requests() == 0; }));  // what is behind the answer, too
  };
  ask(0);  // what is made once
  const std::uint64_t before = allocations;
  for (std::uint32_t i = 1; i <= kRequests; ++i) ask(i);
  return static_cast<double>(allocations - before) / kRequests;
}

TEST(EngineCosts, AllocationsOfARequestAndOfAToken) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has an allocator of its own";
  EngineOptions options = EngineHarness::defaults("cpu", "qwen3_5_text");
  options.requests.reply_checkpoint_tokens = 0;
  EngineHarness harness(options);
  const double few = allocations_of(harness, kShort, 1000);
  const double many = allocations_of(harness, kLong, 2000);
  const double token = (many - few) / (kLong - kShort);
  RecordProperty("request", std::to_string(few));
  RecordProperty("token", std::to_string(token));
  std::printf("allocations: %.1f of a request of 200 tokens, %.2f of a token\n", few, token);
  EXPECT_LE(few, 580) << "515 to 516";
  EXPECT_LE(token, 230) << "211.8: most of them are the layers' own, in the step";
}

}  // namespace
}  // namespace reprise::actors
