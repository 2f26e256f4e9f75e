#pragma once
// RedisStore: a Redis server as a RecordStore, shared by several servers.
//
//   reprise:<folder>:m<name>     record of a manifest
//   reprise:<folder>:c<name>     record of a chunk, or its first kPiece bytes
//   <key>.<write>.1, .2, ...     the rest of a record above kPiece bytes
//   reprise:<folder>:manifests   sorted set: names of manifests, by time of last use
//   reprise:<folder>:changes     counter of added and removed manifests
// All keys expire `ttl` after their last use. The server limits the total size (maxmemory). Pieces are
// written from last to first, and a manifest after its chunks. <write> is the record's nonce: the pieces of two
// writers of one record do not mix.
//
// Anyone may have written what the server holds, so the size that a record states bounds nothing until it was
// compared with the largest that the caller expects.
//
// A connection error opens the breaker, which stops all commands. A refusal by the server, because it is full
// or still loading, does not.
//
// hiredis writes commands and parses answers; only redis_store.cc uses it. Threading: as RecordStore.

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
#include "protocol/snapshots/socket_calls.h"

namespace reprise::protocol::snapshots {

struct RedisAddress {
  std::string host{};
  std::uint16_t port = 6379;
  std::uint32_t database = 0;
  std::string user{};  // empty: the default user
};
/// Parses redis://[user@]host[:port][/database]; IPv6 addresses are in brackets. The error says what is
/// wrong.
Outcome<RedisAddress, std::string> parse_redis_address(std::string_view url);
std::string name_of(const RedisAddress& address);

struct RedisAnswer {
  enum class Kind : std::uint8_t { kNothing, kText, kNumber, kList, kError };
  Kind kind = Kind::kNothing;
  std::string text{};  // text, or the error message
  std::int64_t number = 0;
  std::vector<std::string> list{};
};

/// A connection to a Redis server, with time and size limits.
///
/// Connects on first use, and reconnects if the server has closed the connection. On a timeout, an answer
/// above kMaxAnswer or kMaxList, or a malformed answer, the connection is closed.
///
/// Threading: one thread; blocks for `connect` plus `answer` at most.
class RedisConnection {
 public:
  struct Limits {
    std::chrono::milliseconds connect{1000};
    std::chrono::milliseconds answer{3000};  // for all commands sent together
  };
  static constexpr std::size_t kMaxAnswer = 16u << 20;  // maximum unparsed bytes
  static constexpr std::size_t kMaxList = 1u << 16;     // maximum elements of a list
  using Command = std::vector<std::string_view>;

  RedisConnection(RedisAddress address, std::string password, Limits limits,
                  std::shared_ptr<SocketCalls> calls = SocketCalls::system());
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  const RedisAddress& address() const { return address_; }

  /// Sends the commands and returns one answer for each, in order. Errors reported by the server are answers
  /// of Kind::kError.
  Outcome<std::vector<RedisAnswer>, IoTrouble> ask(std::span<const Command> commands);

 private:
  struct Wire;

  std::optional<IoTrouble> connect();
  Outcome<std::vector<RedisAnswer>, IoTrouble> exchange(std::span<const Command> commands);

  const RedisAddress address_;
  const std::string password_;
  const Limits limits_;
  const std::shared_ptr<SocketCalls> calls_;
  std::unique_ptr<Wire> wire_;  // null: not connected
};

struct RedisSettings {
  RedisAddress address{};
  std::string password{};
  std::chrono::seconds ttl{0};  // 0: unlimited
  RedisConnection::Limits limits{};
  std::shared_ptr<SocketCalls> calls = SocketCalls::system();
};

class RedisStore : public RecordStore {
 public:
  static constexpr std::size_t kPiece = 4u << 20;  // maximum bytes per value
  // per namespace; beyond it the least recently used are forgotten
  static constexpr std::size_t kMaxManifests = 4096;

  RedisStore(RedisSettings settings, std::shared_ptr<StoreBreaker> breaker);

  std::string where() const override;
  std::optional<IoTrouble> prepare() override;
  Outcome<std::vector<std::byte>, Refused> read(const RecordId& folder, FileKind kind, const RecordId& id,
                                                std::uint64_t most) override;
  std::optional<IoTrouble> write(const RecordId& folder, FileKind kind, const RecordId& id,
                                 std::span<const std::byte> bytes) override;
  std::optional<IoTrouble> sync(const RecordId& folder) override;
  bool exists(const RecordId& folder, FileKind kind, const RecordId& id, std::uint64_t most) override;
  void touch(const RecordId& folder, FileKind kind, const RecordId& id, std::chrono::seconds ahead) override;
  std::optional<IoTrouble> remove(const RecordId& folder, FileKind kind, const RecordId& id) override;
  std::optional<std::vector<RecordId>> manifests(const RecordId& folder) override;
  std::optional<std::int64_t> changed(const RecordId& folder) override;
  Outcome<Hold, IoTrouble> hold_for_writing() override { return Hold(breaker_); }
  Outcome<Hold, IoTrouble> hold_for_removing() override { return Hold(breaker_); }
  /// The server expires and evicts keys itself.
  Outcome<std::optional<Collected>, IoTrouble> collect(const CollectionRules&) override {
    return std::optional(Collected{});
  }
  std::uint64_t bytes() override { return 0; }

 private:
  using Commands = std::vector<std::vector<std::string>>;

  /// Returns the answers, among which may be errors.
  Outcome<std::vector<RedisAnswer>, IoTrouble> ask(const Commands& commands);
  /// Returns the error if the server refused the command.
  std::optional<IoTrouble> refusal(const RedisAnswer& answer) const;
  /// Sends the commands; returns the first error of the connection or of the server.
  std::optional<IoTrouble> tell(const Commands& commands);
  std::string key_of(const RecordId& folder, FileKind kind, const RecordId& id) const;
  /// Returns the keys of a record's pieces after the first, by the beginning of the record; nothing if that is
  /// no record of at most `most` bytes.
  std::optional<std::vector<std::string>> other_pieces(const std::string& key,
                                                       std::span<const std::byte> head,
                                                       std::uint64_t most) const;
  /// Returns a command that renews the key's ttl and answers 1 if the key exists.
  std::vector<std::string> keep(const std::string& key) const;
  void note_manifest(const RecordId& folder, const RecordId& id, Commands& commands) const;

  const RedisSettings settings_;
  const std::shared_ptr<StoreBreaker> breaker_;
  RedisConnection connection_;
};

}  // namespace reprise::protocol::snapshots
