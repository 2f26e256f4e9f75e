#include "protocol/snapshots/redis_store.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>

namespace reprise::protocol::snapshots {
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
  commands.push_back({"ZREMRANGEBYRANK", names, "0", std::to_string(-1 - static_cast<int>(kMostManifests))});
  commands.push_back(keep(names));
}

std::optional<IoTrouble> RedisStore::sync(const RecordId&) {
  return std::nullopt;  // how long a server keeps what it has taken is its own business
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
      ask({{"ZREVRANGE", family(folder) + "manifests", "0", std::to_string(kMostManifests - 1)}});
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

// -- all of it: nobody collects here but the server

std::shared_ptr<void> RedisStore::hold_for_writing() {
  return breaker_;
}

std::optional<RecordStore::Collected> RedisStore::collect(const CollectionRules&) {
  return Collected{};
}

}  // namespace reprise::protocol::snapshots
