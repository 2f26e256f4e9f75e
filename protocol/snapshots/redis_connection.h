#pragma once
// RedisConnection: commands to a Redis server, and its answers, within a time and a size.
//
// Made when it is needed, and again when the server had closed it. A server that does not answer in time, that sends
// more than kMostAnswer, or what is no answer, is given up: the connection is closed.
//
// hiredis connects, writes commands and reads answers; it stays inside redis_connection.cc.
// Threading: one thread; it blocks, for `connect` and `answer` at most.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/outcome.h"
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

}  // namespace reprise::protocol::snapshots
