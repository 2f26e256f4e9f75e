#include "protocol/snapshots/redis_store.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <new>

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

/// Parses answers. Lists are bounded before memory for them is allocated.
class AnswerReader {
 public:
  AnswerReader() : reader_(redisReaderCreate(), &redisReaderFree) {
    if (!reader_) throw std::bad_alloc();
    static const redisReplyObjectFunctions kUsual = *reader_->fn;
    static redisReplyObjectFunctions bounded = [] {
      redisReplyObjectFunctions functions = kUsual;
      functions.createArray = [](const redisReadTask* task, auto elements) -> void* {
        return static_cast<std::uint64_t>(elements) > RedisConnection::kMaxList
                   ? nullptr
                   : kUsual.createArray(task, elements);
      };
      return functions;
    }();
    reader_->fn = &bounded;
  }

  bool feed(std::span<const char> bytes) {
    return redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) == REDIS_OK;
  }
  /// Returns false if what came is not an answer. `reply` stays null until a whole answer has come.
  bool next(void*& reply) { return redisReaderGetReply(reader_.get(), &reply) == REDIS_OK; }
  std::size_t unparsed() const { return reader_->len - reader_->pos; }

 private:
  std::unique_ptr<redisReader, void (*)(redisReader*)> reader_;
};

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
  Wire(std::shared_ptr<SocketCalls> its_calls, int its_socket)
      : calls(std::move(its_calls)), socket(its_socket) {}
  ~Wire() { calls->close(socket); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  const std::shared_ptr<SocketCalls> calls;
  const int socket;
  AnswerReader reader{};

  int send_fully(std::span<const char> bytes, SteadyClock::time_point deadline) const {
    while (!bytes.empty()) {
      const ssize_t sent = calls->send(socket, bytes);
      if (sent > 0) {
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
        continue;
      }
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return errno;
      if (const int error = calls->wait(socket, POLLOUT, deadline)) return error;
    }
    return 0;
  }
};

RedisConnection::RedisConnection(RedisAddress address, std::string password, Limits limits,
                                 std::shared_ptr<SocketCalls> calls)
    : address_(std::move(address)),
      password_(std::move(password)),
      limits_(limits),
      calls_(std::move(calls)) {}
RedisConnection::~RedisConnection() = default;

std::optional<IoTrouble> RedisConnection::connect() {
  const auto socket = calls_->connect(address_.host, address_.port, SteadyClock::now() + limits_.connect);
  if (!socket.ok()) {
    return IoTrouble{EIO, "cannot connect to " + name_of(address_) + ": " + socket.error()};
  }
  wire_ = std::make_unique<Wire>(calls_, *socket);
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
    if (const int error = wire_->send_fully({text, static_cast<std::size_t>(length)}, deadline)) {
      return fail("cannot write to", error);
    }
  }
  std::vector<RedisAnswer> answers;
  const auto buffer = std::make_unique<std::array<char, kReadBytes>>();
  while (answers.size() < commands.size()) {
    void* reply = nullptr;
    if (!wire_->reader.next(reply)) return fail("not a Redis answer from", EPROTO);
    if (reply != nullptr) {
      const std::unique_ptr<void, void (*)(void*)> owned(reply, &freeReplyObject);
      answers.push_back(answer_from(*static_cast<redisReply*>(reply)));
      continue;
    }
    if (wire_->reader.unparsed() > kMaxAnswer) return fail("too large an answer from", EPROTO);
    if (const int error = calls_->wait(wire_->socket, POLLIN, deadline)) {
      return fail("no answer from", error);
    }
    const ssize_t got = calls_->receive(wire_->socket, *buffer);
    if (got == 0) return fail("the connection was closed by", ECONNRESET);
    if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    if (got < 0) return fail("cannot read from", errno);
    if (!wire_->reader.feed(std::span<const char>(*buffer).first(static_cast<std::size_t>(got)))) {
      return fail("no memory for an answer from", ENOMEM);
    }
  }
  return answers;
}

namespace {

constexpr std::uint64_t kMaxRemoved = 256u << 20;  // bytes of a record whose pieces are removed with it

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
      connection_(settings_.address, settings_.password, settings_.limits, settings_.calls) {}

std::string RedisStore::where() const {
  return name_of(settings_.address);
}

Outcome<std::vector<RedisAnswer>, IoTrouble> RedisStore::ask(const Commands& commands) {
  if (breaker_->is_open()) return IoTrouble{EHOSTDOWN, where() + " is not used at present, after a failure"};
  std::vector<RedisConnection::Command> parts;
  for (const auto& command : commands) parts.emplace_back(command.begin(), command.end());
  auto answers = connection_.ask(parts);
  if (!answers.ok()) breaker_->open();
  return answers;
}

std::optional<IoTrouble> RedisStore::refusal(const RedisAnswer& answer) const {
  if (answer.kind != RedisAnswer::Kind::kError) return std::nullopt;
  return IoTrouble{EREMOTEIO, where() + " says: " + answer.text};
}

std::optional<IoTrouble> RedisStore::tell(const Commands& commands) {
  const auto answers = ask(commands);
  if (!answers.ok()) return answers.error();
  for (const RedisAnswer& answer : *answers) {
    if (auto refused = refusal(answer)) return refused;
  }
  return std::nullopt;
}

std::optional<IoTrouble> RedisStore::prepare() {
  const std::vector<RedisConnection::Command> ping = {{"PING"}};
  const auto answers = connection_.ask(ping);
  if (!answers.ok()) {
    breaker_->open();
    return answers.error();
  }
  if (auto refused = refusal(answers->front())) return refused;
  breaker_->close();
  return std::nullopt;
}

std::string RedisStore::key_of(const RecordId& folder, FileKind kind, const RecordId& id) const {
  return family(folder) + static_cast<char>(kind) + id.hex();
}

std::optional<std::vector<std::string>> RedisStore::other_pieces(const std::string& key,
                                                                 std::span<const std::byte> head,
                                                                 std::uint64_t most) const {
  const std::optional<std::uint64_t> total = stated_bytes(head);
  if (!total || *total > most) return std::nullopt;
  std::vector<std::string> keys;
  const std::string beginning = key + "." + write_of(head) + ".";
  for (std::size_t piece = 1; piece < pieces_of(*total); ++piece) {
    keys.push_back(beginning + std::to_string(piece));
  }
  return keys;
}

std::vector<std::string> RedisStore::keep(const std::string& key) const {
  if (settings_.ttl.count() == 0) return {"EXISTS", key};
  return {"EXPIRE", key, std::to_string(settings_.ttl.count())};
}

// -- records

// A server that refuses to prolong a key, for example because it is a replica, is read nevertheless.
Outcome<std::vector<std::byte>, Refused> RedisStore::read(const RecordId& folder, FileKind kind,
                                                          const RecordId& id, std::uint64_t most) {
  const std::string first = key_of(folder, kind, id);
  std::vector<std::byte> record;
  std::vector<std::string> keys = {first};
  std::uint64_t total = 0;
  for (std::size_t piece = 0; piece < keys.size(); ++piece) {
    const std::string& key = keys[piece];
    auto answers = ask({{"GET", key}, keep(key)});
    if (!answers.ok()) return Refused{Refusal::kIo, answers.error().message};
    const RedisAnswer& value = answers->front();
    if (const auto refused = refusal(value)) return Refused{Refusal::kIo, refused->message};
    if (value.kind != RedisAnswer::Kind::kText) return Refused{Refusal::kMissing, key + " does not exist"};
    const auto bytes = bytes_of(value.text);
    if (piece == 0) {
      total = bytes.size();
      if (bytes.size() == kPiece) {
        auto others = other_pieces(first, bytes, most);
        if (!others) return Refused{Refusal::kSize, key + " is larger than a record can be"};
        total = *stated_bytes(bytes);
        keys.insert(keys.end(), others->begin(), others->end());
      }
      if (total > most) return Refused{Refusal::kSize, key + " is larger than a record can be"};
    }
    const std::uint64_t expected = std::min<std::uint64_t>(total - record.size(), kPiece);
    if (bytes.size() != expected)
      return Refused{Refusal::kTruncated, keys[piece] + " is shorter or longer than its header says"};
    record.insert(record.end(), bytes.begin(), bytes.end());
  }
  return record;
}

std::optional<IoTrouble> RedisStore::write(const RecordId& folder, FileKind kind, const RecordId& id,
                                           std::span<const std::byte> bytes) {
  const std::string first = key_of(folder, kind, id);
  std::vector<std::string> keys = {first};
  if (bytes.size() > kPiece) {
    // The pieces of the record that was there expire, or go when the server needs their memory.
    const auto others = other_pieces(first, bytes, bytes.size());
    if (!others) return IoTrouble{EINVAL, "what is to be stored is not a record"};
    keys.insert(keys.end(), others->begin(), others->end());
  }
  for (std::size_t piece = keys.size(); piece-- > 0;) {
    const auto part = bytes.subspan(piece * kPiece, std::min(kPiece, bytes.size() - piece * kPiece));
    std::vector<std::string> set = {"SET", keys[piece],
                                    std::string(reinterpret_cast<const char*>(part.data()), part.size())};
    if (settings_.ttl.count() > 0) set.insert(set.end(), {"EX", std::to_string(settings_.ttl.count())});
    if (auto trouble = tell({std::move(set)})) return trouble;
  }
  if (kind != FileKind::kManifest) return std::nullopt;
  Commands commands;
  note_manifest(folder, id, commands);
  const std::string changes = family(folder) + "changes";
  commands.push_back({"INCR", changes});
  commands.push_back(keep(changes));
  return tell(commands);
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

bool RedisStore::exists(const RecordId& folder, FileKind kind, const RecordId& id, std::uint64_t most) {
  const std::string first = key_of(folder, kind, id);
  auto answers =
      ask({{"STRLEN", first}, {"GETRANGE", first, "0", std::to_string(kRecordHead - 1)}, keep(first)});
  if (!answers.ok()) return false;
  const auto head = bytes_of((*answers)[1].text);
  const auto others = other_pieces(first, head, most);
  if (!others) return false;
  const std::uint64_t expected = std::min<std::uint64_t>(*stated_bytes(head), kPiece);
  if (answers->front().number < 0 || static_cast<std::uint64_t>(answers->front().number) != expected) {
    return false;
  }
  if (others->empty()) return true;
  Commands commands;
  for (const std::string& key : *others) commands.push_back({"EXISTS", key});
  for (const std::string& key : *others) commands.push_back(keep(key));
  answers = ask(commands);
  return answers.ok() &&
         std::all_of(answers->begin(), answers->begin() + static_cast<std::ptrdiff_t>(others->size()),
                     [](const RedisAnswer& answer) { return answer.number == 1; });
}

void RedisStore::touch(const RecordId& folder, FileKind kind, const RecordId& id, std::chrono::seconds) {
  Commands commands = {keep(key_of(folder, kind, id))};
  if (kind == FileKind::kManifest) note_manifest(folder, id, commands);
  static_cast<void>(ask(commands));
}

std::optional<IoTrouble> RedisStore::remove(const RecordId& folder, FileKind kind, const RecordId& id) {
  const std::string first = key_of(folder, kind, id);
  const auto answers = ask({{"GETRANGE", first, "0", std::to_string(kRecordHead - 1)}});
  if (!answers.ok()) return answers.error();
  Commands commands = {{"DEL", first}};
  const auto others = other_pieces(first, bytes_of(answers->front().text), kMaxRemoved);
  if (others) commands.front().insert(commands.front().end(), others->begin(), others->end());
  if (kind == FileKind::kManifest) {
    commands.push_back({"ZREM", family(folder) + "manifests", id.hex()});
    commands.push_back({"INCR", family(folder) + "changes"});
  }
  return tell(commands);
}

std::optional<std::vector<RecordId>> RedisStore::manifests(const RecordId& folder) {
  const auto answers =
      ask({{"ZREVRANGE", family(folder) + "manifests", "0", std::to_string(kMaxManifests - 1)}});
  if (!answers.ok() || refusal(answers->front())) return std::nullopt;
  std::vector<RecordId> found;
  for (const std::string& name : answers->front().list) {
    if (const auto id = RecordId::from_hex(name)) found.push_back(*id);
  }
  return found;
}

std::optional<std::int64_t> RedisStore::changed(const RecordId& folder) {
  const auto answers = ask({{"GET", family(folder) + "changes"}});
  if (!answers.ok() || refusal(answers->front())) return std::nullopt;
  const std::string& text = answers->front().text;
  std::int64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return std::max<std::int64_t>(count, 0);
}

}  // namespace reprise::protocol::snapshots
