// TierClient: the states that it requests from lower tiers, and the bound on its waits.

#include "actors/cache/tier_client.h"

#include <gtest/gtest.h>

#include "runtime/system.h"

namespace reprise::actors {
namespace {

using namespace std::chrono_literals;

class EmptyTier : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::FetchState, protocol::StoreState, protocol::ForgetStates,
                                    protocol::UnloadStates>;
  protocol::Fetched on(protocol::FetchState) { return {}; }
  void on(protocol::StoreState) {}
  void on(protocol::ForgetStates) {}
  void on(protocol::UnloadStates) {}
};

TEST(TierClient, FetchesWhatSavesEnough) {
  runtime::System system{{.workers = 1}};
  const auto tier = system.spawn<EmptyTier>({});
  TierClient client(tier, 4, {});
  const SharedTokens prompt = share_tokens(TokenList(200, 1));
  EXPECT_FALSE(client.request_for("", prompt, UINT32_MAX, 0)) << "no model is loaded";
  client.bind({.kind = {.page_tokens = 64}, .seconds_per_token = [] { return 0.5; }});
  const auto request = client.request_for("n", prompt, UINT32_MAX, 100);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->name_space, "n");
  EXPECT_EQ(request->more_than, 100U);
  EXPECT_EQ(request->at_most, 196U) << "one token is computed, and the grid is 4";
  EXPECT_EQ(request->seconds_per_token, 0.5);
  EXPECT_TRUE(client.request_for("", prompt, UINT32_MAX, 132));
  EXPECT_FALSE(client.request_for("", prompt, UINT32_MAX, 133));
  EXPECT_FALSE(client.request_for("", prompt, 63, 0)) << "no more may be restored";
  EXPECT_FALSE(client.request_for("", share_tokens({}), UINT32_MAX, 0));
  EXPECT_FALSE(TierClient({}, 4, {}).request_for("", prompt, UINT32_MAX, 0)) << "there is no tier";
}

TEST(TierClient, WaitsAsLongAsComputingWouldTake) {
  const auto patience = [](std::uint32_t tokens, double seconds_per_token) {
    return TierClient::patience(
        {.more_than = 100, .at_most = 100 + tokens, .seconds_per_token = seconds_per_token});
  };
  EXPECT_EQ(patience(1'000, 0), protocol::kMaxFetchTime) << "unknown";
  EXPECT_EQ(patience(1'000, 0.001), TierClient::kMinPatience);
  EXPECT_EQ(patience(16'000, 0.001), runtime::Duration(32s));
  EXPECT_EQ(patience(1'000'000, 0.001), protocol::kMaxFetchTime);
  EXPECT_GT(protocol::kMaxFetchTime, 60s) << "a tier may read for so long";
}

}  // namespace
}  // namespace reprise::actors
