// The engine's allocations per request and per token, which vary little. Each limit is slightly above the
// current figure: a change that raises one fails here, and a change that lowers one should lower its limit.
#include "tests/actors/engine_harness.h"
#include "tests/counted_memory.h"
#include "tests/require.h"
#include "tests/sanitized.h"

namespace reprise::actors {
namespace {

constexpr std::uint32_t kRequests = 20;
constexpr std::uint32_t kManyTokens = 65, kOneToken = 1;
constexpr double kMaxOfRequest = 380;  // measured: 341
constexpr double kMaxOfToken = 135;    // measured: 124.8, mostly by the layers in the step

/// Returns the allocations of a request of 200 tokens, in the engine and in its reader here.
double allocations_of(EngineHarness& harness, std::uint32_t max_tokens, std::uint32_t seed) {
  const auto ask = [&](std::uint32_t which) {
    protocol::GenerateRequest request = EngineHarness::request(random_tokens(200, seed + which), max_tokens);
    request.sampling.logprobs = 0;
    EXPECT_FALSE(harness.ask(std::move(request)).error);
    EXPECT_TRUE(harness.eventually(
        [&] { return harness.engine().running_requests() == 0; }));  // including work after the answer
  };
  ask(0);  // one-time allocations
  const std::uint64_t before = counted_memory::allocations;
  for (std::uint32_t i = 1; i <= kRequests; ++i) ask(i);
  return static_cast<double>(counted_memory::allocations - before) / kRequests;
}

TEST(EngineCosts, AllocationsOfARequestAndOfAToken) {
  if (kSanitized) REPRISE_SKIP_WITHOUT("unsanitized", "a sanitizer has an allocator of its own");
  EngineOptions options = EngineHarness::defaults("cpu", "qwen3_5_text");
  options.requests.reply_checkpoint_tokens = 0;
  EngineHarness harness(options);
  const double few = allocations_of(harness, kOneToken, 1000);
  const double many = allocations_of(harness, kManyTokens, 2000);
  const double token = (many - few) / (kManyTokens - kOneToken);
  RecordProperty("request", std::to_string(few));
  RecordProperty("token", std::to_string(token));
  // In the format of tests/cache_budgets_test.py: tools/bench_cache makes a table of both.
  std::printf("allocations of a request of 200 tokens: %.2f, limit %.0f\n", few, kMaxOfRequest);
  std::printf("allocations of a token: %.2f, limit %.0f\n", token, kMaxOfToken);
  EXPECT_LE(few, kMaxOfRequest);
  EXPECT_LE(token, kMaxOfToken);
}

}  // namespace
}  // namespace reprise::actors
