// How a prefill of few rows is cut into two waves. What they compute is compared on a GPU by cuda_exactness_test.cc.

#include "models/cuda/waves.h"

#include <gtest/gtest.h>

#include <numeric>

namespace reprise::models::cuda {
namespace {

class CudaWaves : public testing::Test {
 protected:
  /// A slice of so many tokens, 0, 1, 2, ...
  Slice slice(std::size_t tokens) {
    tokens_.resize(tokens);
    std::iota(tokens_.begin(), tokens_.end(), TokenId{0});
    return {.sequence = nullptr, .tokens = tokens_};
  }
  static std::optional<Waves> waves_of(const Slice& slice) { return Waves::of({&slice, 1}); }

  std::vector<TokenId> tokens_;
};

TEST_F(CudaWaves, MeetOnTheGridNearTheMiddle) {
  struct Cut {
    std::size_t tokens;
    std::size_t first;
  };
  for (const Cut& cut :
       {Cut{128, 64}, Cut{129, 64}, Cut{192, 128}, Cut{256, 128}, Cut{333, 192}, Cut{512, 256}}) {
    SCOPED_TRACE(cut.tokens);
    const Slice whole = slice(cut.tokens);
    const auto waves = waves_of(whole);
    ASSERT_TRUE(waves.has_value());
    EXPECT_EQ(waves->ahead(), cut.first);
    EXPECT_EQ(waves->first().tokens.size(), cut.first);
    EXPECT_EQ(waves->second().tokens.size(), cut.tokens - cut.first);
    EXPECT_EQ(waves->second().tokens.front(), static_cast<TokenId>(cut.first));
  }
}

TEST_F(CudaWaves, AreForSlicesOfSomeRowsAlone) {
  EXPECT_FALSE(waves_of(slice(Waves::kLeastRows - 1)));
  EXPECT_FALSE(waves_of(slice(Waves::kMostRows + 1)));
  const std::vector<Slice> two(2, slice(256));
  EXPECT_FALSE(Waves::of(two));
  Slice adapted = slice(256);
  adapted.adapter = 1;
  EXPECT_FALSE(waves_of(adapted));
}

TEST_F(CudaWaves, TheLastLogitsAreOfTheSecond) {
  Slice whole = slice(256);
  const DrawPlan plan;
  whole.plan = &plan;
  const auto last = waves_of(whole);
  EXPECT_EQ(last->first().logits, Slice::Logits::kNone);
  EXPECT_EQ(last->first().plan, nullptr);
  EXPECT_EQ(last->second().logits, Slice::Logits::kLast);
  EXPECT_EQ(last->second().plan, &plan);
  whole.logits = Slice::Logits::kAll;
  EXPECT_EQ(waves_of(whole)->first().logits, Slice::Logits::kAll);
}

TEST_F(CudaWaves, StatesInsideGoToTheWaveThatPassesThem) {
  std::byte slots[3] = {};
  const std::vector<SlotExport> wanted = {{.after = 64, .slot = slots}, {.after = 192, .slot = slots + 1}};
  Slice whole = slice(256);
  whole.exports = wanted;
  const auto waves = waves_of(whole);
  ASSERT_TRUE(waves.has_value());
  const Slice first = waves->first();
  const Slice second = waves->second();
  ASSERT_EQ(first.exports.size(), 1U);
  EXPECT_EQ(first.exports[0].after, 64U);
  EXPECT_EQ(first.exports[0].slot, slots);
  ASSERT_EQ(second.exports.size(), 1U);
  EXPECT_EQ(second.exports[0].after, 64U);
  EXPECT_EQ(second.exports[0].slot, slots + 1);

  const std::vector<SlotExport> between = {{.after = 128, .slot = slots}};
  whole.exports = between;
  EXPECT_FALSE(waves_of(whole)) << "a state is wanted where they meet";
}

}  // namespace
}  // namespace reprise::models::cuda
