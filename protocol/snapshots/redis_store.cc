#include "protocol/snapshots/redis_store.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>

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

/// Waits until the socket is ready for `events`. Returns 0, or an errno (ETIMEDOUT at the deadline).
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

/// Sends all bytes. MSG_NOSIGNAL: a closed connection is an error, not a signal.
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
  // The server closed an idle connection, perhaps because it was restarted: reconnect once.
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
    if (reader->len - reader->pos > kMaxAnswer) return fail("too large an answer from", EPROTO);
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

namespace {

std::string family(const RecordId& folder) {
  return "reprise:" + folder.hex() + ":";
}

std::size_t pieces_of(std::uint64_t bytes) {
  return static_cast<std::size_t>((bytes + RedisStore::kPiece - 1) / RedisStore::kPiece);
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

RedisStore::RedisStore(RedisSettings settings, std::shared_ptr<StoreBreaker> breaker)
    : settings_(std::move(settings)),
      breaker_(std::move(breaker)),
      connection_(settings_.address, settings_.password, settings_.limits) {}

std::string RedisStore::where() const {
  return name_of(settings_.address);
}

Outcome<std::vector<RedisAnswer>, IoTrouble> RedisStore::ask(const Commands& commands) {
  if (breaker_->is_open()) return IoTrouble{EHOSTDOWN, where() + " is not used at present, after a failure"};
  std::vector<RedisConnection::Command> parts;
  for (const auto& command : commands) parts.emplace_back(command.begin(), command.end());
  auto answers = connection_.ask(parts);
  if (!answers.ok()) {
    breaker_->open();
    return answers;
  }
  for (const RedisAnswer& answer : *answers) {
    if (answer.kind == RedisAnswer::Kind::kError)
      return IoTrouble{EREMOTEIO, where() + " says: " + answer.text};
  }
  return answers;
}

std::optional<IoTrouble> RedisStore::prepare() {
  const std::vector<RedisConnection::Command> ping = {{"PING"}};
  const auto answers = connection_.ask(ping);
  if (!answers.ok()) {
    breaker_->open();
    return answers.error();
  }
  if (answers->front().kind == RedisAnswer::Kind::kError) {
    return IoTrouble{EREMOTEIO, where() + " says: " + answers->front().text};
  }
  breaker_->close();
  return std::nullopt;
}

std::string RedisStore::key_of(const RecordId& folder, FileKind kind, const RecordId& id,
                               std::size_t piece) const {
  std::string key = family(folder) + static_cast<char>(kind) + id.hex();
  if (piece > 0) key.append(1, '.').append(std::to_string(piece));
  return key;
}

std::vector<std::string> RedisStore::keep(const std::string& key) const {
  if (settings_.ttl.count() == 0) return {"EXISTS", key};
  return {"EXPIRE", key, std::to_string(settings_.ttl.count())};
}

// -- records

Outcome<std::vector<std::byte>, Refused> RedisStore::read(const RecordId& folder, FileKind kind,
                                                          const RecordId& id, std::uint64_t most) {
  std::vector<std::byte> record;
  std::uint64_t total = 0;
  for (std::size_t piece = 0; piece == 0 || record.size() < total; ++piece) {
    const std::string key = key_of(folder, kind, id, piece);
    auto answers = ask({{"GET", key}, keep(key)});
    if (!answers.ok()) return Refused{Refusal::kIo, answers.error().message};
    const RedisAnswer& value = answers->front();
    if (value.kind != RedisAnswer::Kind::kText) return Refused{Refusal::kMissing, key + " does not exist"};
    const auto bytes = bytes_of(value.text);
    if (piece == 0) {
      total = bytes.size() == kPiece ? stated_bytes(bytes).value_or(kPiece) : bytes.size();
      if (total > most) return Refused{Refusal::kSize, key + " is larger than a record can be"};
    }
    const std::uint64_t expected = std::min<std::uint64_t>(total - record.size(), kPiece);
    if (bytes.size() != expected)
      return Refused{Refusal::kTruncated, key + " is shorter or longer than its header says"};
    record.insert(record.end(), bytes.begin(), bytes.end());
  }
  return record;
}

std::optional<IoTrouble> RedisStore::write(const RecordId& folder, FileKind kind, const RecordId& id,
                                           std::span<const std::byte> bytes) {
  for (std::size_t piece = pieces_of(bytes.size()); piece-- > 0;) {
    const auto part = bytes.subspan(piece * kPiece, std::min(kPiece, bytes.size() - piece * kPiece));
    std::vector<std::string> set = {"SET", key_of(folder, kind, id, piece),
                                    std::string(reinterpret_cast<const char*>(part.data()), part.size())};
    if (settings_.ttl.count() > 0) set.insert(set.end(), {"EX", std::to_string(settings_.ttl.count())});
    const auto answers = ask({std::move(set)});
    if (!answers.ok()) return answers.error();
  }
  if (kind != FileKind::kManifest) return std::nullopt;
  Commands commands;
  note_manifest(folder, id, commands);
  const std::string changes = family(folder) + "changes";
  commands.push_back({"INCR", changes});
  commands.push_back(keep(changes));
  const auto answers = ask(commands);
  return answers.ok() ? std::nullopt : std::optional(answers.error());
}

void RedisStore::note_manifest(const RecordId& folder, const RecordId& id, Commands& commands) const {
  const std::string names = family(folder) + "manifests";
  const std::int64_t now = std::time(nullptr);
  commands.push_back({"ZADD", names, std::to_string(now), id.hex()});
  if (settings_.ttl.count() > 0) {
    commands.push_back({"ZREMRANGEBYSCORE", names, "-inf", std::to_string(now - settings_.ttl.count())});
  }
  commands.push_back({"ZREMRANGEBYRANK", names, "0", std::to_string(-1 - static_cast<int>(kMaxManifests))});
  commands.push_back(keep(names));
}

std::optional<IoTrouble> RedisStore::sync(const RecordId&) {
  return std::nullopt;  // durability is the Redis server's configuration
}

bool RedisStore::exists(const RecordId& folder, FileKind kind, const RecordId& id) {
  const std::string first = key_of(folder, kind, id, 0);
  auto answers = ask({keep(first), {"GETRANGE", first, "0", std::to_string(kRecordHead - 1)}});
  if (!answers.ok() || answers->front().number != 1) return false;
  Commands commands;
  const std::size_t pieces = pieces_of(stated_bytes(bytes_of(answers->back().text)).value_or(0));
  for (std::size_t piece = 1; piece < pieces; ++piece) {
    commands.push_back(keep(key_of(folder, kind, id, piece)));
  }
  if (commands.empty()) return true;
  answers = ask(commands);
  return answers.ok() && std::all_of(answers->begin(), answers->end(),
                                     [](const RedisAnswer& answer) { return answer.number == 1; });
}

void RedisStore::touch(const RecordId& folder, FileKind kind, const RecordId& id, std::chrono::seconds) {
  Commands commands = {keep(key_of(folder, kind, id, 0))};
  if (kind == FileKind::kManifest) note_manifest(folder, id, commands);
  static_cast<void>(ask(commands));
}

void RedisStore::remove(const RecordId& folder, FileKind kind, const RecordId& id) {
  Commands commands = {{"DEL", key_of(folder, kind, id, 0)}};
  if (kind == FileKind::kManifest) {
    commands.push_back({"ZREM", family(folder) + "manifests", id.hex()});
    commands.push_back({"INCR", family(folder) + "changes"});
  }
  static_cast<void>(ask(commands));
}

std::optional<std::vector<RecordId>> RedisStore::manifests(const RecordId& folder) {
  const auto answers =
      ask({{"ZREVRANGE", family(folder) + "manifests", "0", std::to_string(kMaxManifests - 1)}});
  if (!answers.ok()) return std::nullopt;
  std::vector<RecordId> found;
  for (const std::string& name : answers->front().list) {
    if (const auto id = RecordId::from_hex(name)) found.push_back(*id);
  }
  return found;
}

std::optional<std::int64_t> RedisStore::changed(const RecordId& folder) {
  const auto answers = ask({{"GET", family(folder) + "changes"}});
  if (!answers.ok()) return std::nullopt;
  const std::string& text = answers->front().text;
  std::int64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return std::max<std::int64_t>(count, 0);
}

// -- maintenance: the server expires and evicts keys itself

std::shared_ptr<void> RedisStore::hold_for_writing() {
  return breaker_;
}

std::optional<RecordStore::Collected> RedisStore::collect(const CollectionRules&) {
  return Collected{};
}

}  // namespace reprise::protocol::snapshots
