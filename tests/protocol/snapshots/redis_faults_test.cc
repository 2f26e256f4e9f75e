// Every socket call of a scripted workload on a Redis store fails or is cut short, one at a time. Afterwards the
// store has each record whole or not at all, and takes records again without a restart.

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "protocol/snapshots/redis_store.h"
#include "protocol/snapshots/socket_calls.h"
#include "tests/protocol/snapshots/redis_server.h"
#include "tests/require.h"

namespace reprise::protocol::snapshots {
namespace {

using namespace std::chrono_literals;

/// The system's sockets; the planned call fails. Threading: one thread.
class FaultySockets : public SocketCalls {
 public:
  static constexpr int kShort = -1;   // instead of an errno: at most one byte is sent or received
  static constexpr int kClosed = -2;  // the other side has closed the connection

  /// The call with this number, from 0, fails with `fault`.
  void plan(std::size_t call, int fault) {
    planned_ = call;
    fault_ = fault;
    calls_ = 0;
  }
  std::size_t calls() const { return calls_; }

  Outcome<int, std::string> connect(const std::string& host, std::uint16_t port, Deadline deadline) override {
    if (fails() && fault_ != kShort) return std::string("cannot connect: planned");
    return SocketCalls::connect(host, port, deadline);
  }
  ssize_t send(int socket, std::span<const char> bytes) override {
    if (!fails()) return SocketCalls::send(socket, bytes);
    if (fault_ == kShort)
      return SocketCalls::send(socket, bytes.first(std::min<std::size_t>(bytes.size(), 1)));
    errno = fault_ == kClosed ? EPIPE : fault_;
    return -1;
  }
  ssize_t receive(int socket, std::span<char> to) override {
    if (!fails()) return SocketCalls::receive(socket, to);
    if (fault_ == kShort) return SocketCalls::receive(socket, to.first(std::min<std::size_t>(to.size(), 1)));
    if (fault_ == kClosed) return 0;
    errno = fault_;
    return -1;
  }
  int wait(int socket, short events, Deadline deadline) override {
    if (!fails() || fault_ == kShort) return SocketCalls::wait(socket, events, deadline);
    return fault_ == kClosed ? ECONNRESET : fault_;
  }

 private:
  bool fails() { return calls_++ == planned_; }

  std::size_t planned_ = SIZE_MAX;
  int fault_ = 0;
  std::size_t calls_ = 0;
};

class RedisFaults : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!test::RedisServer::is_installed()) REPRISE_SKIP_WITHOUT("redis", "no redis-server in PATH");
  }
  static RecordId numbered(unsigned char number) {
    RecordId id;
    id.bytes.fill(std::byte{number});
    return id;
  }
  std::vector<std::byte> record(RecordKind kind, unsigned char number, std::size_t bytes) const {
    return seal_record(keys_, kind, numbered(number), {}, std::vector<std::byte>(bytes, std::byte{number}));
  }

  void fail_calls(std::size_t bytes, std::size_t step);

  const NamespaceKeys keys_ = keys_of(master_key("a secret for the tests"), 1, "somebody");
};

/// Fails one call after the other, in steps.
void RedisFaults::fail_calls(std::size_t bytes, std::size_t step) {
  const test::RedisServer server;
  const auto sockets = std::make_shared<FaultySockets>();
  const auto breaker = std::make_shared<StoreBreaker>();
  const RedisSettings settings{.address = {.host = "127.0.0.1", .port = server.port()},
                               .ttl = 100s,
                               .limits = {.connect = 20s, .answer = 20s},
                               .calls = sockets};
  const std::vector<std::byte> chunk = record(RecordKind::kSlot, 1, bytes);
  const std::vector<std::byte> manifest = record(RecordKind::kManifest, 2, 100);
  const auto is_whole_or_missing = [&](RedisStore& store, FileKind kind, unsigned char number,
                                       const std::vector<std::byte>& expected) {
    const auto read = store.read(keys_.folder, kind, numbered(number), expected.size());
    return !read.ok() || std::equal(read->begin(), read->end(), expected.begin(), expected.end());
  };
  const auto work = [&](RedisStore& store) {
    const bool written = !store.write(keys_.folder, FileKind::kChunk, numbered(1), chunk) &&
                         !store.write(keys_.folder, FileKind::kManifest, numbered(2), manifest);
    EXPECT_TRUE(is_whole_or_missing(store, FileKind::kChunk, 1, chunk));
    EXPECT_TRUE(is_whole_or_missing(store, FileKind::kManifest, 2, manifest));
    const bool listed = store.manifests(keys_.folder) == std::vector<RecordId>{numbered(2)};
    return written && listed;
  };
  bool reached = true;
  std::size_t calls = 0;
  for (std::size_t call = 0; reached; call += step) {
    SCOPED_TRACE("call " + std::to_string(call));
    RedisStore store(settings, breaker);
    sockets->plan(call, GetParam());
    const bool worked = work(store);
    reached = sockets->calls() > call;
    calls += reached ? 1 : 0;
    EXPECT_TRUE(worked || reached) << "without a fault";
    sockets->plan(SIZE_MAX, 0);
    ASSERT_FALSE(store.prepare()) << "it answers again";
    EXPECT_FALSE(breaker->is_open());
    EXPECT_TRUE(work(store)) << "it takes records again";
    EXPECT_FALSE(store.remove(keys_.folder, FileKind::kManifest, numbered(2)));
    EXPECT_FALSE(store.remove(keys_.folder, FileKind::kChunk, numbered(1)));
  }
  EXPECT_GT(calls, 8U);
}

TEST_P(RedisFaults, EveryCallMayFail) {
  fail_calls(1000, 1);
}
TEST_P(RedisFaults, CallsOfLargeRecordsMayFail) {
  fail_calls(RedisStore::kPiece + 10, 7);
}

INSTANTIATE_TEST_SUITE_P(Each, RedisFaults,
                         testing::Values(ECONNRESET, ETIMEDOUT, FaultySockets::kShort,
                                         FaultySockets::kClosed),
                         [](const auto& info) {
                           switch (info.param) {
                             case ECONNRESET:
                               return "reset";
                             case ETIMEDOUT:
                               return "timeout";
                             case FaultySockets::kShort:
                               return "cut_short";
                             default:
                               return "closed";
                           }
                         });

}  // namespace
}  // namespace reprise::protocol::snapshots
