// Grown grammars (tests/fuzz/grower.h): patterns, GBNF and schemas that repeat, nest, chain and fan out, from
// 100 bytes to 1 MiB, from a fixed seed. Each must be compiled or refused on a small stack, within a number
// of steps, allocations and bytes; likewise the masks of compiled ones. No clock is used: a loop that charges
// nothing is detected by its allocations, or by the test's time limit.
//
// A sample always runs; REPRISE_THOROUGH runs many more, with the limits of requests.
//
// A separate program, because it counts all its allocations.

#include <gtest/gtest.h>

#include "tests/counted_memory.h"
#include "tests/fuzz/grower.h"
#include "tests/protocol/grammar/grammar_fixture.h"
#include "tests/small_stack.h"
#include "tests/thorough.h"

namespace reprise::protocol::grammar {
namespace {

using Kind = Constraint::Kind;

// The tolerance of a compilation or mask beyond its limits: a last charge may be large, and memory is counted
// approximately.
constexpr std::uint64_t kStepsBeyond = 8'000'000;
constexpr std::uint64_t kAllocationsPerStep = 2;
constexpr std::uint64_t kFreeAllocations = 4'000'000;
constexpr std::int64_t kMaxBytes = 384 << 20;

Limits limits_of_test() {
  Limits limits;
  limits.compile_seconds = 0;
  if (!thorough()) {
    limits.compile_steps = 500'000;
    limits.mask_steps = 200'000;
  }
  return limits;
}

struct Tally {
  std::size_t kept = 0;
  std::size_t refused = 0;
  std::size_t masks = 0;
};

// Runs the work and checks its allocations.
template <class Work>
void watched(const std::string& what, std::uint64_t steps, const Work& work) {
  const std::uint64_t allocations = counted_memory::allocations;
  const std::int64_t held = counted_memory::bytes;
  counted_memory::max_bytes = held;
  on_small_stack(work);
  EXPECT_LT(counted_memory::allocations - allocations, kFreeAllocations + kAllocationsPerStep * steps)
      << what;
  EXPECT_LT(counted_memory::max_bytes - held, kMaxBytes) << what;
}

void try_out(const Constraint& constraint, const std::string& what, fuzz::Draws& draws, Tally& tally) {
  const Limits limits = limits_of_test();
  std::shared_ptr<const Program> program;
  watched(what, limits.compile_steps, [&] {
    WorkBudget budget = compile_budget(limits);
    auto compiled = compile(constraint, budget);
    EXPECT_LT(budget.steps(), limits.compile_steps + kStepsBeyond) << what;
    ++(compiled.ok() ? tally.kept : tally.refused);
    if (compiled.ok()) program = std::move(*compiled);
  });
  if (program == nullptr) return;
  try {
    std::optional<ReplyConstraint> reply;
    watched(what, limits.mask_steps,
            [&] { reply.emplace(std::make_shared<MaskMaker>(program, small_vocabulary())); });
    for (int step = 0; step < 4; ++step) {
      SharedMask mask;
      watched(what, limits.mask_steps, [&] { mask = reply->mask(); });
      ++tally.masks;
      std::vector<TokenId> allowed;
      for (std::size_t id = 1; id < small_vocabulary()->token_count(); ++id) {
        if (mask->allows(static_cast<TokenId>(id))) allowed.push_back(static_cast<TokenId>(id));
      }
      EXPECT_TRUE(mask->count > 0 || mask->ends) << "a dead end: " << what;
      if (allowed.empty()) return;
      EXPECT_TRUE(reply->accept(allowed[draws.below(allowed.size())])) << what;
    }
  } catch (const GrammarError&) {
  }
}

template <class Make>
void grow(std::uint64_t seed, int often, const Make& make) {
  Tally tally;
  const int all = thorough() ? often * 8 : rounds(often);
  for (int i = 0; i < all; ++i) {
    fuzz::Draws draws(seed + static_cast<std::uint64_t>(i));
    const std::size_t size = fuzz::grown_size(draws);
    const Constraint constraint = make(draws, size);
    const std::string shown = constraint.json.is_null() ? constraint.text : constraint.json.dump();
    const std::string what =
        "seed " + std::to_string(seed + static_cast<std::uint64_t>(i)) + ": " + shown.substr(0, 300);
    try_out(constraint, what, draws, tally);
    if (testing::Test::HasFailure()) return;
  }
  if (!kSanitized) {
    EXPECT_GT(tally.kept, static_cast<std::size_t>(all / 20)) << "they are mostly nonsense";
    EXPECT_GT(tally.refused, static_cast<std::size_t>(all / 20)) << "they are harmless";
    EXPECT_GT(tally.masks, static_cast<std::size_t>(all / 20));
  }
}

TEST(GrammarGrowth, Regex) {
  grow(1'000'000, 60, [](fuzz::Draws& draws, std::size_t size) {
    return Constraint{.kind = Kind::kRegex, .text = fuzz::grow_regex(draws, size)};
  });
}

TEST(GrammarGrowth, Gbnf) {
  grow(2'000'000, 60, [](fuzz::Draws& draws, std::size_t size) {
    return Constraint{.kind = Kind::kGbnf, .text = fuzz::grow_gbnf(draws, size)};
  });
}

TEST(GrammarGrowth, Schema) {
  grow(3'000'000, 80, [](fuzz::Draws& draws, std::size_t size) {
    return Constraint{.kind = Kind::kJsonSchema, .json = fuzz::grow_schema(draws, size)};
  });
}

}  // namespace
}  // namespace reprise::protocol::grammar
