// The stack of tiers: which tier is asked, and in which order.

#include "actors/tiers/tier_stack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "runtime/system.h"
#include "tests/eventually.h"

namespace reprise::actors {
namespace {

using namespace std::chrono_literals;
using protocol::Fetched;
using protocol::FetchState;
using protocol::FindState;
using protocol::FoundState;
using protocol::MissReason;
using protocol::Tier;

/// The calls of all tiers in order.
struct Journal {
  void add(std::string line) {
    const std::lock_guard lock(mutex);
    lines.push_back(std::move(line));
  }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex);
    return std::exchange(lines, {});
  }
  std::mutex mutex;
  std::vector<std::string> lines;
};

class JournalTier : public runtime::Actor {
 public:
  struct Manner {
    Tier tier{};
    std::uint32_t depth = 0;
    bool brings = true;
    MissReason reason = MissReason::kNeverSeen;
    bool is_silent = false;
  };
  using Accepts = runtime::Messages<FindState, FetchState, protocol::StoreState, protocol::ForgetStates>;
  static constexpr const char* kName = "fake tier";

  JournalTier(Manner manner, std::shared_ptr<Journal> journal)
      : manner_(manner), journal_(std::move(journal)) {}

  void on(FindState job, runtime::ReplyTo<FoundState> reply) {
    note("find");
    if (manner_.is_silent) return silenced_.push_back(std::move(reply));
    const bool there = manner_.depth > job.fetch.more_than && manner_.depth <= job.fetch.at_most;
    reply.answer(
        FoundState{.at = there ? manner_.depth : 0, .reason = there ? MissReason::kNone : manner_.reason});
  }
  Fetched on(FetchState job) {
    note("fetch");
    Fetched fetched{.reason = MissReason::kCorrupt, .tier = manner_.tier};
    if (!manner_.brings || manner_.depth > job.at_most) return fetched;
    auto state = std::make_shared<protocol::HostState>();
    state->stored = manner_.depth;
    fetched.state = std::move(state);
    fetched.reason = MissReason::kNone;
    return fetched;
  }
  void on(protocol::StoreState) { note("store"); }
  void on(protocol::ForgetStates) { note("forget"); }

 private:
  void note(const std::string& what) { journal_->add(std::string(name_of(manner_.tier)) + " " + what); }

  const Manner manner_;
  const std::shared_ptr<Journal> journal_;
  std::vector<runtime::ReplyTo<FoundState>> silenced_;
};

class TierStackTest : public testing::Test {
 protected:
  Fetched fetch(const std::vector<JournalTier::Manner>& manners) {
    std::vector<protocol::OneTierRef> tiers;
    for (const auto& manner : manners) tiers.emplace_back(system_.spawn<JournalTier>({}, manner, journal_));
    stack_ =
        system_.spawn<TierStack>({}, std::move(tiers), std::vector<protocol::TurnStoreRef>{}, host_, limits_);
    return fetch_again();
  }
  Fetched fetch_again() {
    auto fetched = stack_.ask_blocking(
        FetchState{.prompt = std::make_shared<TokenList>(1000), .more_than = 100, .at_most = 999}, 10s);
    EXPECT_TRUE(fetched.ok());
    return fetched.ok() ? std::move(*fetched) : Fetched{};
  }
  using Lines = std::vector<std::string>;

  const std::shared_ptr<Journal> journal_ = std::make_shared<Journal>();
  runtime::System system_{{.workers = 1}};
  runtime::Ref<protocol::UnloadStates> host_;
  TierLimits limits_{};
  runtime::RefOf<TierStack> stack_;
};

TEST_F(TierStackTest, TheDeepestBringsIt) {
  const Fetched fetched = fetch({{Tier::kHost, 256}, {Tier::kDisk, 512}, {Tier::kRemote, 320}});
  ASSERT_TRUE(fetched.state);
  EXPECT_EQ(fetched.tier, Tier::kDisk);
  EXPECT_EQ(fetched.state->stored, 512U);
  EXPECT_EQ(journal_->take(), (Lines{"host find", "disk find", "remote find", "disk fetch"}));
}

TEST_F(TierStackTest, AmongEqualsTheNearestDoes) {
  EXPECT_EQ(fetch({{Tier::kHost, 0}, {Tier::kDisk, 512}, {Tier::kRemote, 512}}).tier, Tier::kDisk);
  EXPECT_EQ(fetch({{Tier::kDisk, 513}, {Tier::kRemote, 520}}).tier, Tier::kDisk)
      << "for a few tokens no way is worth it";
}

TEST_F(TierStackTest, NobodyIsAskedWhoCouldNotBringMore) {
  EXPECT_EQ(fetch({{Tier::kHost, 990}, {Tier::kDisk, 995}}).tier, Tier::kHost);
  EXPECT_EQ(journal_->take(), (Lines{"host find", "host fetch"}));
}

TEST_F(TierStackTest, WhereOneFailsTheNextIsAsked) {
  const Fetched fetched = fetch({{Tier::kDisk, 512, false}, {Tier::kRemote, 256}});
  ASSERT_TRUE(fetched.state);
  EXPECT_EQ(fetched.tier, Tier::kRemote);
}

TEST_F(TierStackTest, AMissSaysWhy) {
  EXPECT_EQ(fetch({{Tier::kDisk, 0}, {Tier::kRemote, 50}}).reason, MissReason::kNeverSeen);
  EXPECT_EQ(fetch({{Tier::kDisk, 0, true, MissReason::kOtherArithmetic}, {Tier::kRemote, 0}}).reason,
            MissReason::kOtherArithmetic);
  const Fetched corrupt = fetch({{Tier::kDisk, 512, false}, {Tier::kRemote, 0}});
  EXPECT_FALSE(corrupt.state);
  EXPECT_EQ(corrupt.reason, MissReason::kCorrupt);
}

TEST_F(TierStackTest, OnlyTheTierThatDoesNotAnswerRests) {
  limits_.find = 50ms;
  limits_.rest = 10min;
  EXPECT_EQ(fetch({{.tier = Tier::kDisk, .is_silent = true}, {Tier::kRemote, 512}}).tier, Tier::kRemote);
  EXPECT_EQ(journal_->take(), (Lines{"disk find", "remote find", "remote fetch"}));
  EXPECT_TRUE(fetch_again().state);
  EXPECT_EQ(journal_->take(), (Lines{"remote find", "remote fetch"}));
}

TEST_F(TierStackTest, ATierIsAskedAgainAfterItsRest) {
  limits_.find = 50ms;
  limits_.rest = 0ms;
  fetch({{.tier = Tier::kDisk, .is_silent = true}, {Tier::kRemote, 512}});
  journal_->take();
  fetch_again();
  EXPECT_EQ(journal_->take(), (Lines{"disk find", "remote find", "remote fetch"}));
}

class HostJournal : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::UnloadStates>;
  explicit HostJournal(std::shared_ptr<Journal> journal) : journal_(std::move(journal)) {}
  void on(protocol::UnloadStates job) { journal_->add("host unload " + job.prefix); }

 private:
  const std::shared_ptr<Journal> journal_;
};

TEST_F(TierStackTest, HostMemoryHearsOfUnloadedModels) {
  host_ = system_.spawn<HostJournal>({}, journal_);
  fetch({{Tier::kDisk, 0}});
  journal_->take();
  stack_.tell(protocol::UnloadStates{.model = 1, .prefix = "a"});
  Lines lines;
  EXPECT_TRUE(eventually([&] { return !(lines = journal_->take()).empty(); }));
  EXPECT_EQ(lines, Lines{"host unload a"});
}

TEST_F(TierStackTest, AllAreToldWhatToKeepAndToForget) {
  fetch({{Tier::kDisk, 0}, {Tier::kRemote, 0}});
  journal_->take();
  stack_.tell(protocol::StoreState{});
  stack_.tell(protocol::ForgetStates{});
  Lines lines;
  EXPECT_TRUE(eventually([&] {
    for (std::string& line : journal_->take()) lines.push_back(std::move(line));
    return lines.size() >= 4;
  }));
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, (Lines{"disk forget", "disk store", "remote forget", "remote store"}));
}

}  // namespace
}  // namespace reprise::actors
