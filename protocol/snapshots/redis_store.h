#pragma once
// RedisStore: a Redis server as a RecordStore, for servers that share their snapshots.
//
//   reprise:<folder>:m<name>     a manifest's record
//   reprise:<folder>:c<name>     a chunk's record. Its first kPiece bytes, where it is longer; then comes .1, .2, ...
//   reprise:<folder>:manifests   sorted set: names of manifests, by the time of their last use
//   reprise:<folder>:changes     counts manifests that came or went
// All of it lives for `ttl` since its last use. How much there may be is for the server to say (maxmemory).
// Pieces are written from the last to the first, and the manifest when its chunks are there.
//
// A failure of the connection opens the breaker; while it is open nothing is asked. An answer that refuses, because the
// server is full or still loading, does not.
//
// hiredis connects, writes commands and reads answers; it stays inside redis_store.cc.
// Threading: as protocol/snapshots/record_store.h.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/outcome.h"
#include "protocol/snapshots/record_store.h"
#include "protocol/snapshots/snapshot_folder.h"

namespace reprise::protocol::snapshots {

struct RedisAddress {
  std::string host{};
  std::uint16_t port = 6379;
  std::uint32_t database = 0;
  std::string user{};  // empty: the default one
};
/// redis://[user@]host[:port][/database]; an IPv6 address in brackets. The error says what is wrong.
Outcome<RedisAddress, std::string> parse_redis_address(std::string_view url);
std::string name_of(const RedisAddress& address);

struct RedisAnswer {
  enum class Kind : std::uint8_t { kNothing, kText, kNumber, kList, kError };
  Kind kind = Kind::kNothing;
  std::string text{};  // or what went wrong
  std::int64_t number = 0;
  std::vector<std::string> list{};  // of texts
};

/// Commands to a Redis server, and its answers, within a time and a size.
///
/// It connects when it is needed, and again when the server had closed it. A server that does not answer in time, that
/// sends more than kMostAnswer, or what is no answer, is given up: the connection is closed.
///
/// One thread; it blocks, for `connect` and `answer` at most.
class RedisConnection {
 public:
  struct Limits {
    std::chrono::milliseconds connect{1000};
    std::chrono::milliseconds answer{3000};  // to all commands that are sent together
  };
  static constexpr std::size_t kMostAnswer = 16u << 20;  // bytes that wait to be understood
  using Command = std::vector<std::string_view>;

  RedisConnection(RedisAddress address, std::string password, Limits limits);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  const RedisAddress& address() const { return address_; }

  /// One answer for each command, in their order. What the server itself refuses is an answer of Kind::kError.
  Outcome<std::vector<RedisAnswer>, IoTrouble> ask(std::span<const Command> commands);

 private:
  struct Wire;

  std::optional<IoTrouble> connect();
  Outcome<std::vector<RedisAnswer>, IoTrouble> exchange(std::span<const Command> commands);

  const RedisAddress address_;
  const std::string password_;
  const Limits limits_;
  std::unique_ptr<Wire> wire_;  // null: not connected
};

struct RedisSettings {
  RedisAddress address{};
  std::string password{};
  std::chrono::seconds ttl{0};  // 0: for ever
  RedisConnection::Limits limits{};
};

class RedisStore : public RecordStore {
 public:
  static constexpr std::size_t kPiece = 4u << 20;      // bytes of a value
  static constexpr std::size_t kMostManifests = 4096;  // of a namespace, that are known: the latest used

  RedisStore(RedisSettings settings, std::shared_ptr<StoreBreaker> breaker);

  std::string where() const override;
  std::optional<IoTrouble> prepare() override;
  Outcome<std::vector<std::byte>, Refused> read(const RecordId& folder, FileKind kind, const RecordId& id,
                                                std::uint64_t most) override;
  std::optional<IoTrouble> write(const RecordId& folder, FileKind kind, const RecordId& id,
                                 std::span<const std::byte> bytes) override;
  std::optional<IoTrouble> sync(const RecordId& folder) override;
  bool exists(const RecordId& folder, FileKind kind, const RecordId& id) override;
  void touch(const RecordId& folder, FileKind kind, const RecordId& id, std::chrono::seconds ahead) override;
  void remove(const RecordId& folder, FileKind kind, const RecordId& id) override;
  std::optional<std::vector<RecordId>> manifests(const RecordId& folder) override;
  std::optional<std::int64_t> changed(const RecordId& folder) override;
  std::shared_ptr<void> hold_for_writing() override;
  std::optional<Collected> collect(const CollectionRules& rules) override;
  std::uint64_t bytes() override { return 0; }

 private:
  using Commands = std::vector<std::vector<std::string>>;

  /// Answers that are none of the errors; otherwise what the first one said.
  Outcome<std::vector<RedisAnswer>, IoTrouble> ask(const Commands& commands);
  std::string key_of(const RecordId& folder, FileKind kind, const RecordId& id, std::size_t piece) const;
  /// A command that lets a key live for another ttl, and answers 1 if it is there.
  std::vector<std::string> keep(const std::string& key) const;
  void note_manifest(const RecordId& folder, const RecordId& id, Commands& commands) const;

  const RedisSettings settings_;
  const std::shared_ptr<StoreBreaker> breaker_;
  RedisConnection connection_;
};

}  // namespace reprise::protocol::snapshots
