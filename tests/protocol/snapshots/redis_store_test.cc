// Records in a Redis server: complete or missing, within a time limit; a failed server is not asked for a
// while.

#include "protocol/snapshots/redis_store.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/protocol/snapshots/redis_server.h"
#include "tests/require.h"

namespace reprise::protocol::snapshots {
namespace {

using namespace std::chrono_literals;
using reprise::test::FakeRedis;
using reprise::test::RedisServer;

RecordId numbered(unsigned char number) {
  RecordId id;
  id.bytes.fill(std::byte{number});
  return id;
}

/// Returns a sealed record of that size.
std::vector<std::byte> record_of(const NamespaceKeys& keys, const RecordId& id, std::size_t bytes) {
  std::vector<std::byte> contents(bytes);
  for (std::size_t i = 0; i < bytes; ++i) contents[i] = static_cast<std::byte>(i * 7 + i / 255);
  return seal_record(keys, RecordKind::kSlot, id, {}, contents);
}

RedisSettings settings_for(std::uint16_t port) {
  return {.address = {.host = "127.0.0.1", .port = port},
          .ttl = 100s,
          .limits = {.connect = 2000ms, .answer = 20'000ms}};
}

TEST(RedisAddressTest, SaysWhereTheStoreIs) {
  const auto full = parse_redis_address("redis://me@cache.example:7000/3");
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->user, "me");
  EXPECT_EQ(full->host, "cache.example");
  EXPECT_EQ(full->port, 7000);
  EXPECT_EQ(full->database, 3U);
  EXPECT_EQ(name_of(*full), "redis://cache.example:7000/3") << "without the user";
  const auto v6 = parse_redis_address("redis://[::1]:7001");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->port, 7001);
  EXPECT_EQ(parse_redis_address("redis://host")->port, 6379);
}

TEST(RedisAddressTest, RefusesWhatIsNone) {
  for (const char* url :
       {"", "host:1", "http://host", "rediss://host", "redis://", "redis://:1", "redis://host:0",
        "redis://host:65536", "redis://host:x", "redis://host/x", "redis://[::1", "redis://[::1]x",
        "redis://user:password@host", "redis://:password@host"}) {
    EXPECT_FALSE(parse_redis_address(url).ok()) << url;
  }
}

class RedisStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::is_installed()) REPRISE_SKIP_WITHOUT("redis", "no redis-server in PATH");
  }
  const NamespaceKeys keys_ = keys_of(master_key("a secret for the tests"), 1, "somebody");
  const std::shared_ptr<StoreBreaker> breaker_ = std::make_shared<StoreBreaker>();
};

TEST_F(RedisStoreTest, BringsBackWhatItWasGivenInPiecesOrNot) {
  const RedisServer server;
  RedisStore store(settings_for(server.port()), breaker_);
  ASSERT_FALSE(store.prepare());
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, RedisStore::kPiece - record_bytes(0, 0),
                                  RedisStore::kPiece, 2 * RedisStore::kPiece + 5}) {
    const RecordId id = numbered(static_cast<unsigned char>(bytes % 251));
    const auto record = record_of(keys_, id, bytes);
    EXPECT_FALSE(store.exists(keys_.folder, FileKind::kChunk, id, record.size()));
    ASSERT_FALSE(store.write(keys_.folder, FileKind::kChunk, id, record));
    EXPECT_TRUE(store.exists(keys_.folder, FileKind::kChunk, id, record.size()));
    const auto read = store.read(keys_.folder, FileKind::kChunk, id, record.size());
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_TRUE(std::equal(read->begin(), read->end(), record.begin(), record.end()));
    const auto larger = store.read(keys_.folder, FileKind::kChunk, id, record.size() - 1);
    EXPECT_EQ(larger.error().why, Refusal::kSize);
  }
  const auto missing = store.read(keys_.folder, FileKind::kChunk, numbered(250), 1000);
  EXPECT_EQ(missing.error().why, Refusal::kMissing);
}

TEST_F(RedisStoreTest, EverythingLivesForItsTime) {
  const RedisServer server;
  RedisStore store(settings_for(server.port()), breaker_);
  ASSERT_FALSE(store.write(keys_.folder, FileKind::kChunk, numbered(1),
                           record_of(keys_, numbered(1), RedisStore::kPiece + 1)));
  ASSERT_FALSE(
      store.write(keys_.folder, FileKind::kManifest, numbered(2), record_of(keys_, numbered(2), 10)));
  RedisConnection plain({.host = "127.0.0.1", .port = server.port()}, "", {});
  const auto keys = plain.ask(std::vector<RedisConnection::Command>{{"KEYS", "*"}});
  ASSERT_TRUE(keys.ok());
  EXPECT_EQ(keys->front().list.size(), 5U) << "two pieces, a manifest, their names, their changes";
  for (const std::string& key : keys->front().list) {
    const auto left = plain.ask(std::vector<RedisConnection::Command>{{"TTL", key}});
    EXPECT_GT(left->front().number, 90) << key;
    EXPECT_LE(left->front().number, 100) << key;
  }
}

TEST_F(RedisStoreTest, APieceThatWentIsAMiss) {
  const RedisServer server;
  RedisStore store(settings_for(server.port()), breaker_);
  const auto record = record_of(keys_, numbered(1), 2 * RedisStore::kPiece);
  ASSERT_FALSE(store.write(keys_.folder, FileKind::kChunk, numbered(1), record));
  RedisConnection plain({.host = "127.0.0.1", .port = server.port()}, "", {});
  const std::string piece =
      "reprise:" + keys_.folder.hex() + ":c" + numbered(1).hex() + "." + write_of(record) + ".1";
  ASSERT_EQ(plain.ask(std::vector<RedisConnection::Command>{{"SET", piece, "short"}})->front().text, "OK");
  EXPECT_EQ(store.read(keys_.folder, FileKind::kChunk, numbered(1), record.size()).error().why,
            Refusal::kTruncated);
  ASSERT_EQ(plain.ask(std::vector<RedisConnection::Command>{{"DEL", piece}})->front().number, 1);
  EXPECT_EQ(store.read(keys_.folder, FileKind::kChunk, numbered(1), record.size()).error().why,
            Refusal::kMissing);
  EXPECT_FALSE(store.exists(keys_.folder, FileKind::kChunk, numbered(1), record.size()));
}

TEST_F(RedisStoreTest, AStatedSizeBoundsNothing) {
  const RedisServer server;
  RedisStore store(settings_for(server.port()), breaker_);
  const auto record = record_of(keys_, numbered(1), 100);
  std::string head(reinterpret_cast<const char*>(record.data()), kRecordHead);
  head[16 + 7] = 0x40;  // 2^62 bytes of contents
  const std::string key = "reprise:" + keys_.folder.hex() + ":c" + numbered(1).hex();
  RedisConnection plain({.host = "127.0.0.1", .port = server.port()}, "", {});
  ASSERT_EQ(plain.ask(std::vector<RedisConnection::Command>{{"SET", key, head}})->front().text, "OK");
  EXPECT_FALSE(store.exists(keys_.folder, FileKind::kChunk, numbered(1), record.size()));
  EXPECT_FALSE(store.remove(keys_.folder, FileKind::kChunk, numbered(1)));
  const std::string whole = head + std::string(RedisStore::kPiece - head.size(), 'x');
  ASSERT_EQ(plain.ask(std::vector<RedisConnection::Command>{{"SET", key, whole}})->front().text, "OK");
  EXPECT_FALSE(store.exists(keys_.folder, FileKind::kChunk, numbered(1), 2 * RedisStore::kPiece));
  EXPECT_EQ(store.read(keys_.folder, FileKind::kChunk, numbered(1), 2 * RedisStore::kPiece).error().why,
            Refusal::kSize);
}

TEST_F(RedisStoreTest, PiecesOfTwoWritersDoNotMix) {
  const RedisServer server;
  RedisStore store(settings_for(server.port()), breaker_);
  const auto one = record_of(keys_, numbered(1), 2 * RedisStore::kPiece);
  const auto other = record_of(keys_, numbered(1), 2 * RedisStore::kPiece);
  ASSERT_FALSE(store.write(keys_.folder, FileKind::kChunk, numbered(1), one));
  const std::string key = "reprise:" + keys_.folder.hex() + ":c" + numbered(1).hex();
  RedisConnection plain({.host = "127.0.0.1", .port = server.port()}, "", {});
  const std::string first = plain.ask(std::vector<RedisConnection::Command>{{"GET", key}})->front().text;
  ASSERT_FALSE(store.write(keys_.folder, FileKind::kChunk, numbered(1), other));
  ASSERT_TRUE(plain.ask(std::vector<RedisConnection::Command>{{"SET", key, first}}).ok());  // overtaken
  const auto read = store.read(keys_.folder, FileKind::kChunk, numbered(1), one.size());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(*read == one);
}

TEST_F(RedisStoreTest, ARefusedExpiryDoesNotRefuseARecord) {
  const RedisServer server({"--rename-command", "EXPIRE", ""});
  RedisSettings settings = settings_for(server.port());
  settings.address.host = "localhost";
  RedisStore store(settings, breaker_);
  const auto record = record_of(keys_, numbered(1), 100);
  ASSERT_FALSE(store.write(keys_.folder, FileKind::kChunk, numbered(1), record));
  EXPECT_TRUE(store.read(keys_.folder, FileKind::kChunk, numbered(1), record.size()).ok());
  EXPECT_TRUE(store.exists(keys_.folder, FileKind::kChunk, numbered(1), record.size()));
}

TEST_F(RedisStoreTest, SaysWhichManifestsThereAreAndWhenThatChanged) {
  const RedisServer server;
  RedisStore store(settings_for(server.port()), breaker_), other(settings_for(server.port()), breaker_);
  EXPECT_EQ(store.changed(keys_.folder), 0);
  EXPECT_EQ(store.manifests(keys_.folder), std::vector<RecordId>{});
  ASSERT_FALSE(
      other.write(keys_.folder, FileKind::kManifest, numbered(2), record_of(keys_, numbered(2), 10)));
  const auto changed = store.changed(keys_.folder);
  EXPECT_NE(changed, 0);
  EXPECT_EQ(store.manifests(keys_.folder), std::vector<RecordId>{numbered(2)});
  ASSERT_FALSE(store.remove(keys_.folder, FileKind::kManifest, numbered(2)));
  EXPECT_NE(other.changed(keys_.folder), changed);
  EXPECT_EQ(other.manifests(keys_.folder), std::vector<RecordId>{});
}

TEST_F(RedisStoreTest, AsksForAPasswordWhereOneIsNeeded) {
  const RedisServer server({"--requirepass", "open sesame"});
  RedisSettings settings = settings_for(server.port());
  RedisStore without(settings, breaker_);
  const auto refused = without.prepare();
  ASSERT_TRUE(refused);
  EXPECT_NE(refused->message.find("NOAUTH"), std::string::npos) << refused->message;
  settings.password = "wrong";
  RedisStore wrong(settings, breaker_);
  EXPECT_TRUE(wrong.prepare());
  settings.password = "open sesame";
  RedisStore right(settings, breaker_);
  EXPECT_FALSE(right.prepare());
}

TEST_F(RedisStoreTest, AFullServerRefusesAndIsReadStill) {
  const RedisServer server({"--maxmemory", "8mb", "--maxmemory-policy", "noeviction"});
  RedisStore store(settings_for(server.port()), breaker_);
  std::optional<IoTrouble> trouble;
  for (unsigned char i = 0; i < 8 && !trouble; ++i) {
    trouble =
        store.write(keys_.folder, FileKind::kChunk, numbered(i), record_of(keys_, numbered(i), 2u << 20));
  }
  ASSERT_TRUE(trouble);
  EXPECT_NE(trouble->message.find("OOM"), std::string::npos) << trouble->message;
  EXPECT_FALSE(breaker_->is_open());
  EXPECT_TRUE(store.read(keys_.folder, FileKind::kChunk, numbered(0), 3u << 20).ok());
}

TEST_F(RedisStoreTest, AServerThatWasStartedAnewIsFoundAgain) {
  RedisServer server;
  RedisStore store(settings_for(server.port()), breaker_);
  ASSERT_FALSE(store.prepare());
  server.stop();
  server.start();
  EXPECT_EQ(store.changed(keys_.folder), 0) << "by a connection that had gone with the server before";
  server.stop();
  EXPECT_EQ(store.changed(keys_.folder), std::nullopt);
  EXPECT_TRUE(breaker_->is_open());
  server.start();
  EXPECT_EQ(store.changed(keys_.folder), std::nullopt) << "left alone";
  EXPECT_FALSE(store.prepare());
  EXPECT_EQ(store.changed(keys_.folder), 0);
}

class RedisMannersTest : public testing::TestWithParam<FakeRedis::Manner> {};

TEST_P(RedisMannersTest, AServerThatMisbehavesIsGivenUpInTimeAndLeftAlone) {
  const FakeRedis server(GetParam());
  const auto breaker = std::make_shared<StoreBreaker>();
  RedisSettings settings = settings_for(server.port());
  if (GetParam() == FakeRedis::Manner::kSilent) settings.limits.answer = 100ms;
  RedisStore store(settings, breaker);
  const RecordId id = numbered(1);
  const auto read = store.read(id, FileKind::kManifest, id, 1000);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().why, Refusal::kIo);
  EXPECT_TRUE(breaker->is_open());
  const int before = server.connections();
  RedisStore another(settings, breaker);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(another.changed(id), std::nullopt);
    EXPECT_FALSE(another.exists(id, FileKind::kChunk, id, 1000));
  }
  EXPECT_EQ(server.connections(), before) << "nobody asks it any more";
  EXPECT_TRUE(store.prepare());
}

INSTANTIATE_TEST_SUITE_P(ApiFlavor, RedisMannersTest,
                         testing::Values(FakeRedis::Manner::kSilent, FakeRedis::Manner::kClosing,
                                         FakeRedis::Manner::kGarbage, FakeRedis::Manner::kEndless));

TEST(RedisStoreAloneTest, NobodyThereIsATrouble) {
  std::uint16_t port = 0;
  const int closed = reprise::test::bind_anywhere(port);
  const auto breaker = std::make_shared<StoreBreaker>();
  RedisStore store(settings_for(port), breaker);
  EXPECT_TRUE(store.prepare());
  EXPECT_TRUE(breaker->is_open());
  ::close(closed);
}

}  // namespace
}  // namespace reprise::protocol::snapshots
