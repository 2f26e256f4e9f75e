// States that another build or device computed: misses, until a state of this one was found to have the same bytes, and
// for good where it had not.

#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>

#include "actors/tiers/arithmetic_verdicts.h"
#include "actors/tiers/store_tier.h"
#include "protocol/snapshots/seal.h"
#include "runtime/system.h"
#include "tests/actors/engine_harness.h"
#include "tests/require.h"
#include "tests/temp_dir.h"

namespace reprise::actors {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using protocol::Fetched;
using protocol::Tier;
using Standing = ArithmeticVerdicts::Standing;

constexpr std::uint64_t kHere = 1, kOther = 2, kThird = 3;

protocol::StateKind kind_with(std::uint64_t arithmetic) {
  return {.model = 7, .arithmetic = arithmetic, .page_bytes = 256, .slot_bytes = 64, .page_tokens = 64};
}

TEST(ArithmeticVerdicts, NothingIsTrustedBeforeItWasCompared) {
  ArithmeticVerdicts verdicts;
  EXPECT_EQ(verdicts.standing(kind_with(kHere), kOther, 10), Standing::kUntried);
  verdicts.note(kind_with(kHere), kOther, 100, true);
  EXPECT_EQ(verdicts.standing(kind_with(kHere), kOther, 400), Standing::kTrusted);
  EXPECT_EQ(verdicts.standing(kind_with(kHere), kOther, 401), Standing::kUntried)
      << "longer ones first again";
  EXPECT_EQ(verdicts.standing(kind_with(kOther), kHere, 10), Standing::kUntried);
  EXPECT_EQ(verdicts.standing(kind_with(kHere), kThird, 10), Standing::kUntried);
}

TEST(ArithmeticVerdicts, ADifferenceIsRememberedWhateverComesLater) {
  ArithmeticVerdicts verdicts;
  verdicts.note(kind_with(kHere), kOther, 100, true);
  verdicts.note(kind_with(kHere), kOther, 200, false);
  verdicts.note(kind_with(kHere), kOther, 300, true);
  EXPECT_EQ(verdicts.standing(kind_with(kHere), kOther, 10), Standing::kRefused);
}

TEST(ArithmeticVerdicts, ThereIsABound) {
  ArithmeticVerdicts verdicts;
  for (std::uint64_t other = 10; other < 10 + 2 * ArithmeticVerdicts::kMost; ++other) {
    verdicts.note(kind_with(kHere), other, 100, true);
  }
  EXPECT_EQ(verdicts.standing(kind_with(kHere), 10, 100), Standing::kTrusted);
  EXPECT_EQ(verdicts.standing(kind_with(kHere), 10 + ArithmeticVerdicts::kMost, 100), Standing::kRefused);
}

TEST(ArithmeticVerdicts, PagesAndSlotAreComparedAndNotTheRoomBehindTheTokens) {
  const protocol::StateKind kind = kind_with(kHere);
  std::vector<std::byte> one(2 * kind.page_bytes + kind.slot_bytes), other = one;
  const auto same = [&] { return ArithmeticVerdicts::same_states(kind, 100, one, other); };
  EXPECT_TRUE(same());
  other[kind.page_bytes] = std::byte{1};  // of the second page, which is not full
  EXPECT_TRUE(same());
  other[kind.page_bytes - 1] = std::byte{1};
  EXPECT_FALSE(same());
  other = one;
  other.back() = std::byte{1};
  EXPECT_FALSE(same());
  protocol::StateKind without_slot = kind;
  without_slot.slot_bytes = 0;
  EXPECT_FALSE(ArithmeticVerdicts::can_compare(without_slot, 63)) << "there is nothing in it to compare";
  EXPECT_TRUE(ArithmeticVerdicts::can_compare(without_slot, 64));
  EXPECT_TRUE(ArithmeticVerdicts::can_compare(kind, 1));
}

/// A device whose snapshots are of one byte throughout: their number.
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
  void start(bool other_builds) {
    TierSettings settings = tier_settings(
        DiskTierSettings{.folder = folder_ + "/cache",
                         .master_key = protocol::snapshots::master_key("a secret for the tests"),
                         .even_if_slower = true,
                         .other_builds = other_builds});
    settings.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      log_ += line + "\n";
    };
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
  /// Stores a state of bytes that are all `content`, and waits until it is there.
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
  bool says(const std::string& text) {
    const std::lock_guard lock(mutex_);
    return log_.find(text) != std::string::npos;
  }
  bool eventually_says(const std::string& text) {
    return eventually([&] { return says(text); });
  }

  const test::TempDir dir_;
  const std::string folder_ = dir_.path();
  runtime::System system_{{.workers = 2}};
  runtime::RefOf<FakeDevice> device_ = system_.spawn<FakeDevice>();
  runtime::RefOf<StoreTier> tier_;
  std::shared_ptr<TierFigures> figures_;
  std::mutex mutex_;
  std::string log_;  // guarded by mutex_
};

TEST_F(OtherBuildsTest, WithoutTheSettingTheyAreMisses) {
  start(false);
  const SharedTokens prompt = tokens(1), second = tokens(2);
  store(kOther, prompt, 300, 5);
  store(kOther, second, 300, 6);
  const Fetched missed = fetch(kHere, prompt);
  EXPECT_FALSE(missed.state);
  EXPECT_EQ(missed.reason, MissReason::kOtherArithmetic);
  EXPECT_EQ(missed.compare_at, 0U);
  store(kHere, prompt, 300, 5);
  EXPECT_EQ(fetch(kHere, second).reason, MissReason::kOtherArithmetic);
}

TEST_F(OtherBuildsTest, OneThatWasComparedAndIsTheSameOpensTheOthers) {
  start(true);
  const SharedTokens prompt = tokens(1), second = tokens(2), third = tokens(3);
  store(kOther, prompt, 300, 5);
  store(kOther, second, 1200, 6);
  store(kOther, third, 1201, 7);
  const Fetched first = fetch(kHere, prompt);
  EXPECT_FALSE(first.state) << "before it was compared";
  EXPECT_EQ(first.reason, MissReason::kOtherArithmetic);
  EXPECT_EQ(first.compare_at, 300U);
  store(kHere, prompt, 300, 5);
  ASSERT_TRUE(eventually_says("are bitwise identical"));
  const Fetched opened = fetch(kHere, second);
  ASSERT_TRUE(opened.state);
  EXPECT_EQ(opened.state->stored, 1200U);
  EXPECT_EQ(opened.state->bytes.front(), std::byte{6});
  const Fetched longer = fetch(kHere, third);
  EXPECT_FALSE(longer.state) << "more than four times as long";
  EXPECT_EQ(longer.compare_at, 1201U);
  EXPECT_EQ(fetch(kThird, second).reason, MissReason::kOtherArithmetic) << "another pair";
  EXPECT_EQ(figures_->refused[static_cast<std::size_t>(protocol::snapshots::Refusal::kArithmetic)].load(),
            0U);
}

TEST_F(OtherBuildsTest, OneThatIsNotTheSameClosesAllForGood) {
  start(true);
  const SharedTokens prompt = tokens(1), second = tokens(2);
  store(kOther, prompt, 300, 5);
  store(kOther, second, 300, 6);
  EXPECT_EQ(fetch(kHere, prompt).compare_at, 300U);
  store(kHere, prompt, 300, 9);
  ASSERT_TRUE(eventually_says("with different results"));
  EXPECT_EQ(figures_->refused[static_cast<std::size_t>(protocol::snapshots::Refusal::kArithmetic)].load(),
            1U);
  EXPECT_EQ(fetch(kHere, prompt).state->bytes.front(), std::byte{9}) << "its own";
  Fetched closed = fetch(kHere, second);
  EXPECT_TRUE(eventually([&] {
    closed = fetch(kHere, second);
    return closed.compare_at == 0;
  })) << "the verdict is on its way";
  EXPECT_FALSE(closed.state);
  EXPECT_EQ(closed.reason, MissReason::kOtherArithmetic);
  store(kHere, second, 300, 6);  // that one is the same, and nothing follows from it
  const SharedTokens third = tokens(3);
  store(kOther, third, 300, 7);
  EXPECT_FALSE(fetch(kHere, third).state);
  EXPECT_EQ(fetch(kOther, third).state->bytes.front(), std::byte{7}) << "they stay for who computed them";
}

// -- through the whole engine: the same model with other instructions, whatever its bits are

TEST_F(OtherBuildsTest, AnEngineComputesThePlaceComparesAndAnswersAsACold) {
  if (gpu::best_isa() == gpu::Isa::kPlain)
    REPRISE_SKIP_WITHOUT("avx2", "the plain instructions are alone here");
  const auto options = [&](const std::string& isa) {
    EngineOptions options = EngineHarness::defaults("cpu", "qwen3_5_text");
    options.models.front().isa = isa;
    options.disk.folder = folder_ + "/engines";
    options.disk.master_key = protocol::snapshots::master_key("a secret for the tests");
    options.disk.even_if_slower = true;
    options.disk.other_builds = true;
    options.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      log_ += line + "\n";
    };
    return options;
  };
  const TokenList prompt = random_tokens(300, 1);
  TokenList next;
  {
    EngineHarness engine(options("plain"));
    const Reply reply = engine.ask(prompt);
    next = prompt + reply.tokens() + random_tokens(70, 2);
    ASSERT_TRUE(engine.eventually(
        [&] { return engine.figure("tier_stored_total") >= 2 && engine.figure("tier_waiting") == 0; }));
  }
  EngineHarness engine(options(""));
  const Reply reply = engine.ask(next);
  EXPECT_NE(reply.cache.tier, Tier::kDisk) << "before it was compared";
  EXPECT_EQ(reply.cache.restored_tokens, 0U);
  EXPECT_EQ(reply.cache.reason, MissReason::kOtherArithmetic);
  ASSERT_TRUE(engine.eventually([&] {
    return says("are bitwise identical") || says("with different results");
  })) << "the place was not computed and compared";
  const TokenList branch = prompt + random_tokens(80, 3);
  EXPECT_EQ(engine.ask(branch).choices, engine.cold(branch).choices);
}

}  // namespace
}  // namespace reprise::actors
