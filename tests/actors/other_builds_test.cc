// States computed by another build or device are misses.

#include <gtest/gtest.h>

#include "actors/tiers/store_tier.h"
#include "protocol/snapshots/seal.h"
#include "runtime/system.h"
#include "tests/actors/engine_harness.h"
#include "tests/temp_dir.h"

namespace reprise::actors {
namespace {

using namespace std::chrono_literals;
using protocol::Fetched;

constexpr std::uint64_t kHere = 1, kOther = 2;

protocol::StateKind kind_with(std::uint64_t arithmetic) {
  return {.model = 7, .arithmetic = arithmetic, .page_bytes = 256, .slot_bytes = 64, .page_tokens = 64};
}

/// A device whose snapshots consist of one repeated byte: their number.
class FakeDevice : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::ReadKv>;
  static constexpr const char* kName = "fake device";
  protocol::ReadKv::Reply on(protocol::ReadKv read) {
    std::fill(read.to.begin(), read.to.end(), static_cast<std::byte>(read.snapshot.number));
    return protocol::Nothing{};
  }
};

class OtherBuildsTest : public testing::Test {
 protected:
  void TearDown() override { system_.stop(); }
  void SetUp() override {
    TierSettings settings = tier_settings(
        DiskTierSettings{.folder = folder_ + "/cache",
                         .master_key = protocol::snapshots::master_key("a secret for the tests"),
                         .even_if_slower = true});
    figures_ = std::make_shared<TierFigures>();
    tier_ = system_.spawn<StoreTier>({}, settings, figures_);
  }
  static SharedTokens tokens(TokenId first) {
    return std::make_shared<const TokenList>(TokenList(2000, first));
  }
  Fetched fetch(std::uint64_t arithmetic, const SharedTokens& prompt, std::uint32_t at_most = 1999) {
    auto fetched = tier_.ask_blocking(
        protocol::FetchState{.kind = kind_with(arithmetic), .prompt = prompt, .at_most = at_most}, 20s);
    EXPECT_TRUE(fetched.ok());
    return fetched.ok() ? std::move(*fetched) : Fetched{};
  }
  /// Stores a state filled with `content`, and waits until it is stored.
  void store(std::uint64_t arithmetic, const SharedTokens& prompt, std::uint32_t at, std::uint8_t content) {
    const std::uint64_t before = figures_->stored.load();
    tier_.tell(protocol::StoreState{.kind = kind_with(arithmetic),
                                    .tokens = prompt,
                                    .at = at,
                                    .snapshot = {.generation = 1, .number = content},
                                    .worker = device_});
    EXPECT_TRUE(eventually([&] { return figures_->stored.load() > before; }));
    EXPECT_TRUE(eventually([&] { return fetch(arithmetic, prompt, at).state != nullptr; }));
  }

  const test::TempDir dir_;
  const std::string folder_ = dir_.path();
  runtime::System system_{{.workers = 2}};
  runtime::RefOf<FakeDevice> device_ = system_.spawn<FakeDevice>();
  runtime::RefOf<StoreTier> tier_;
  std::shared_ptr<TierFigures> figures_;
};

TEST_F(OtherBuildsTest, StatesOfOtherBuildsAreMissesAndStayStored) {
  const SharedTokens prompt = tokens(1), second = tokens(2);
  store(kOther, prompt, 300, 5);
  store(kOther, second, 300, 6);
  const Fetched missed = fetch(kHere, prompt);
  EXPECT_FALSE(missed.state);
  EXPECT_EQ(missed.reason, MissReason::kOtherArithmetic);
  store(kHere, prompt, 300, 5);
  EXPECT_EQ(fetch(kHere, second).reason, MissReason::kOtherArithmetic) << "whatever bytes the first has";
  EXPECT_EQ(fetch(kOther, second).state->bytes.front(), std::byte{6});
}

}  // namespace
}  // namespace reprise::actors
