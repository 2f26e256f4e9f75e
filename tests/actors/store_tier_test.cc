// StoreTier without an engine, on a folder in memory whose calls fail: what it wrote comes back or is a miss, the
// folder is whole, and it recovers without a restart.

#include "actors/tiers/store_tier.h"

#include <gtest/gtest.h>

#include "protocol/snapshots/folder_check.h"
#include "runtime/system.h"
#include "tests/eventually.h"
#include "tests/protocol/snapshots/memory_files.h"

namespace reprise::actors {
namespace {

using namespace std::chrono_literals;
using namespace protocol::snapshots;
using protocol::Fetched;
using protocol::MissReason;

constexpr std::uint64_t kPage = 2000, kSlot = 300;

std::byte content_of(std::uint64_t page, std::uint64_t at) {
  return static_cast<std::byte>(at * 31 + page * 7);
}

class SmallDevice : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::ReadKv>;
  static constexpr const char* kName = "small device";
  protocol::ReadKv::Reply on(protocol::ReadKv read) {
    for (std::uint64_t i = 0; i < read.to.size(); ++i) {
      read.to[i] = read.slot ? content_of(99, i) : content_of(read.first_page + i / kPage, i % kPage);
    }
    return protocol::Nothing{};
  }
};

class StoreTierTest : public testing::Test {
 protected:
  void TearDown() override { system_.stop(); }
  void start(std::uint64_t max_bytes, std::uint64_t loading_bytes = 1 << 20) {
    TierSettings settings{
        .open_store = [files = files_] { return std::make_unique<FolderStore>(MemoryFiles::kRoot, files); },
        .breaker = std::make_shared<StoreBreaker>(),
        .master_key = kMaster,
        .max_bytes = max_bytes,
        .even_if_slower = true,
        .loading_bytes = loading_bytes,
        .retry = 1ms};
    tier_ = system_.spawn<StoreTier>({}, settings, figures_);
  }
  void store(const SharedTokens& tokens, std::uint32_t at) {
    tier_.tell(protocol::StoreState{.kind = kKind,
                                    .tokens = tokens,
                                    .at = at,
                                    .snapshot = {.generation = 1, .number = 1},
                                    .worker = device_});
  }
  std::uint64_t settled() const {
    return figures_->stored.load() + figures_->no_room.load() + figures_->failures.load();
  }
  Fetched fetch(const SharedTokens& tokens) {
    auto fetched =
        tier_.ask_blocking(protocol::FetchState{.kind = kKind, .prompt = tokens, .at_most = 999}, 20s);
    EXPECT_TRUE(fetched.ok());
    if (!fetched.ok() || !fetched->state) return fetched.ok() ? std::move(*fetched) : Fetched{};
    const std::span<const std::byte> bytes = fetched->state->bytes;
    const std::uint64_t pages = (bytes.size() - kSlot) / kPage;
    std::size_t wrong = 0;
    for (std::uint64_t i = 0; i < bytes.size(); ++i) {
      wrong += bytes[i] !=
               (i < pages * kPage ? content_of(i / kPage, i % kPage) : content_of(99, i - pages * kPage));
    }
    EXPECT_EQ(wrong, 0U) << "a wrong state";
    return std::move(*fetched);
  }
  void expect_whole() {
    const auto checked = check_folder(SnapshotFolder(MemoryFiles::kRoot, files_), kMaster);
    ASSERT_TRUE(checked.ok());
    EXPECT_TRUE(checked->is_whole());
    for (const auto& problem : checked->snapshots_wrong) {
      ADD_FAILURE() << problem.file.name << ": " << problem.refused.message;
    }
  }
  SharedTokens prompt(TokenId last) const {
    TokenList tokens(200, 5);
    tokens.back() = last;
    return std::make_shared<const TokenList>(tokens);
  }

  const Key kMaster = master_key("a secret for the tests");
  const protocol::StateKind kKind{
      .model = 7, .arithmetic = 1, .page_bytes = kPage, .slot_bytes = kSlot, .page_tokens = 64};
  const std::shared_ptr<MemoryFiles> files_ = std::make_shared<MemoryFiles>();
  const std::shared_ptr<TierFigures> figures_ = std::make_shared<TierFigures>();
  runtime::System system_{{.workers = 1}};
  runtime::RefOf<SmallDevice> device_ = system_.spawn<SmallDevice>();
  runtime::RefOf<StoreTier> tier_;
};

TEST_F(StoreTierTest, MakingRoomKeepsAManifestsPages) {
  start(22'000);  // one snapshot has 10,600, and each of these shares three pages with the one before
  for (TokenId last = 10; last < 20; ++last) {
    const std::uint64_t before = settled();
    store(prompt(last), 200);
    ASSERT_TRUE(eventually([&] { return settled() > before; }));
    expect_whole();
  }
  EXPECT_GT(figures_->evicted.load(), 0U);
  EXPECT_TRUE(fetch(prompt(19)).state);
}

TEST_F(StoreTierTest, AFailedReadHidesNothingForLong) {
  start(1 << 20);
  store(prompt(1), 200);
  ASSERT_TRUE(eventually([&] { return figures_->stored.load() == 1; }));
  ASSERT_TRUE(fetch(prompt(1)).state);
  for (std::size_t call = 0; call < 12; ++call) {
    files_->plan(call, EMFILE);
    static_cast<void>(fetch(prompt(1)));
    files_->plan(SIZE_MAX, 0);
    EXPECT_TRUE(eventually([&] { return fetch(prompt(1)).state != nullptr; })) << "call " << call;
  }
}

}  // namespace
}  // namespace reprise::actors
