#include "protocol/snapshots/redis_connection.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace reprise::protocol::snapshots {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::size_t kReadBytes = 64u << 10;

template <class T>
bool parse_number(std::string_view text, T& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

IoTrouble wire_trouble(const std::string& what, int code) {
  return {code, what + (code != 0 ? std::string(": ") + std::strerror(code) : std::string())};
}

/// Whether the socket is ready for `events` by then; 0, or an error.
int wait_for_socket(int socket, short events, SteadyClock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
    if (left <= 0) return ETIMEDOUT;
    pollfd waiting{.fd = socket, .events = events, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(left) + 1);
    if (ready > 0) return 0;
    if (ready < 0 && errno != EINTR) return errno;
  }
}

/// Without a signal where the other side has gone.
int send_fully(int socket, std::span<const char> bytes, SteadyClock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return errno;
    if (const int error = wait_for_socket(socket, POLLOUT, deadline)) return error;
  }
  return 0;
}

RedisAnswer answer_from(const redisReply& reply) {
  RedisAnswer answer;
  switch (reply.type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      answer.kind = RedisAnswer::Kind::kText;
      answer.text.assign(reply.str, reply.len);
      break;
    case REDIS_REPLY_INTEGER:
      answer.kind = RedisAnswer::Kind::kNumber;
      answer.number = reply.integer;
      break;
    case REDIS_REPLY_ERROR:
      answer.kind = RedisAnswer::Kind::kError;
      answer.text.assign(reply.str, reply.len);
      break;
    case REDIS_REPLY_ARRAY:
      answer.kind = RedisAnswer::Kind::kList;
      for (std::size_t i = 0; i < reply.elements; ++i) {
        const redisReply* one = reply.element[i];
        if (one != nullptr && one->type == REDIS_REPLY_STRING) answer.list.emplace_back(one->str, one->len);
      }
      break;
    default:
      break;
  }
  return answer;
}

}  // namespace

Outcome<RedisAddress, std::string> parse_redis_address(std::string_view url) {
  constexpr std::string_view kScheme = "redis://";
  if (url.starts_with("rediss://")) return std::string("TLS (rediss://) is not supported");
  if (!url.starts_with(kScheme)) return std::string("must begin with redis://");
  url.remove_prefix(kScheme.size());
  RedisAddress address;
  if (const std::size_t at = url.rfind('@'); at != std::string_view::npos) {
    address.user = url.substr(0, at);
    if (address.user.find(':') != std::string::npos) {
      return std::string("must not hold the password: it comes from a file or the environment");
    }
    url.remove_prefix(at + 1);
  }
  if (const std::size_t slash = url.find('/'); slash != std::string_view::npos) {
    const std::string_view database = url.substr(slash + 1);
    if (!database.empty() && !parse_number(database, address.database)) {
      return std::string("its database must be a number");
    }
    url = url.substr(0, slash);
  }
  std::string_view port;
  if (url.starts_with('[')) {
    const std::size_t end = url.find(']');
    if (end == std::string_view::npos) return std::string("its address has no end");
    address.host = url.substr(1, end - 1);
    port = url.substr(end + 1);
    if (!port.empty() && port.front() != ':') return std::string("its address has no end");
    if (!port.empty()) port.remove_prefix(1);
  } else {
    const std::size_t colon = url.find(':');
    address.host = url.substr(0, colon);
    if (colon != std::string_view::npos) port = url.substr(colon + 1);
  }
  if (address.host.empty()) return std::string("has no host");
  if (!port.empty() && (!parse_number(port, address.port) || address.port == 0)) {
    return std::string("its port must be a number from 1 to 65535");
  }
  return address;
}

std::string name_of(const RedisAddress& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return "redis://" + (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port) +
         "/" + std::to_string(address.database);
}

struct RedisConnection::Wire {
  struct Close {
    void operator()(redisContext* context) const { redisFree(context); }
  };
  std::unique_ptr<redisContext, Close> context;
};

RedisConnection::RedisConnection(RedisAddress address, std::string password, Limits limits)
    : address_(std::move(address)), password_(std::move(password)), limits_(limits) {}
RedisConnection::~RedisConnection() = default;

std::optional<IoTrouble> RedisConnection::connect() {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(limits_.connect).count();
  const timeval time{.tv_sec = us / 1'000'000, .tv_usec = static_cast<suseconds_t>(us % 1'000'000)};
  auto wire = std::make_unique<Wire>();
  wire->context.reset(redisConnectWithTimeout(address_.host.c_str(), address_.port, time));
  if (!wire->context) return IoTrouble{ENOMEM, "no memory for a connection"};
  if (wire->context->err != 0) {
    return IoTrouble{EIO, "cannot connect to " + name_of(address_) + ": " + wire->context->errstr};
  }
  wire_ = std::move(wire);
  std::vector<Command> greeting;
  if (!password_.empty() && address_.user.empty()) greeting.push_back({"AUTH", password_});
  if (!password_.empty() && !address_.user.empty()) {
    greeting.push_back({"AUTH", address_.user, password_});
  }
  const std::string database = std::to_string(address_.database);
  if (address_.database != 0) greeting.push_back({"SELECT", database});
  if (greeting.empty()) return std::nullopt;
  const auto answers = exchange(greeting);
  if (!answers.ok()) return answers.error();
  for (const RedisAnswer& answer : *answers) {
    if (answer.kind != RedisAnswer::Kind::kError) continue;
    wire_.reset();
    return IoTrouble{EACCES, name_of(address_) + " refuses: " + answer.text};
  }
  return std::nullopt;
}

Outcome<std::vector<RedisAnswer>, IoTrouble> RedisConnection::ask(std::span<const Command> commands) {
  const bool was_connected = wire_ != nullptr;
  if (!was_connected) {
    if (auto trouble = connect()) return *trouble;
  }
  auto answers = exchange(commands);
  // One that the server has closed in the meantime: it may have been started anew.
  if (answers.ok() || !was_connected || answers.error().code == ETIMEDOUT) return answers;
  if (auto trouble = connect()) return *trouble;
  return exchange(commands);
}

Outcome<std::vector<RedisAnswer>, IoTrouble> RedisConnection::exchange(std::span<const Command> commands) {
  const SteadyClock::time_point deadline = SteadyClock::now() + limits_.answer;
  const int socket = wire_->context->fd;
  redisReader* reader = wire_->context->reader;
  const auto fail = [&](const std::string& what, int code) {
    wire_.reset();
    return wire_trouble(what + " " + name_of(address_), code);
  };
  for (const Command& command : commands) {
    std::vector<const char*> parts;
    std::vector<std::size_t> sizes;
    for (const std::string_view part : command) {
      parts.push_back(part.data());
      sizes.push_back(part.size());
    }
    char* text = nullptr;
    const int length =
        redisFormatCommandArgv(&text, static_cast<int>(parts.size()), parts.data(), sizes.data());
    if (length < 0) return fail("no memory for a command to", ENOMEM);
    const std::unique_ptr<char, void (*)(char*)> owned(text, &redisFreeCommand);
    if (const int error = send_fully(socket, {text, static_cast<std::size_t>(length)}, deadline)) {
      return fail("cannot write to", error);
    }
  }
  std::vector<RedisAnswer> answers;
  const auto buffer = std::make_unique<std::array<char, kReadBytes>>();
  while (answers.size() < commands.size()) {
    void* reply = nullptr;
    if (redisReaderGetReply(reader, &reply) != REDIS_OK) return fail("not a Redis answer from", EPROTO);
    if (reply != nullptr) {
      const std::unique_ptr<void, void (*)(void*)> owned(reply, &freeReplyObject);
      answers.push_back(answer_from(*static_cast<redisReply*>(reply)));
      continue;
    }
    if (reader->len - reader->pos > kMostAnswer) return fail("too large an answer from", EPROTO);
    if (const int error = wait_for_socket(socket, POLLIN, deadline)) return fail("no answer from", error);
    const ssize_t got = ::recv(socket, buffer->data(), buffer->size(), MSG_DONTWAIT);
    if (got == 0) return fail("the connection was closed by", ECONNRESET);
    if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    if (got < 0) return fail("cannot read from", errno);
    if (redisReaderFeed(reader, buffer->data(), static_cast<std::size_t>(got)) != REDIS_OK) {
      return fail("no memory for an answer from", ENOMEM);
    }
  }
  return answers;
}

}  // namespace reprise::protocol::snapshots
