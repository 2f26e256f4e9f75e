#include "actors/tiers/store_io.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <new>
#include <span>
#include <thread>
#include <utility>

#include "base/digest.h"
#include "protocol/name_space.h"
#include "protocol/snapshots/manifest.h"
#include "protocol/snapshots/record_store.h"
#include "runtime/wait.h"
#include "traces/trace.h"

namespace reprise::actors {

using namespace protocol::snapshots;
using protocol::StoreState;
using protocol::StoreTurn;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::chrono::milliseconds kLockPause{20};
constexpr int kLockTries = 100;
constexpr int kRoomTries = 3;
constexpr int kReadTries = 50;
constexpr std::size_t kMaxNoted = 1u << 16;
constexpr std::size_t kMaxFailed = 16;  // manifests that cannot be read before the others are left for later
constexpr std::size_t kMaxSums = 1u << 20;

/// Returns true if no program can use the record; one that a newer program or one with another secret could
/// read is kept.
bool is_hopeless(Refusal why) {
  return why == Refusal::kTruncated || why == Refusal::kMisplaced || why == Refusal::kSize ||
         why == Refusal::kSeal || why == Refusal::kContents || why == Refusal::kMissing;
}

/// Decrypts a record into `to`. Returns an error if it differs from what the manifest lists.
std::optional<Refused> unlike(RecordKind kind, const RecordId& id, std::span<const std::byte> record,
                              std::span<std::byte> to, const NamespaceKeys& keys, std::uint64_t sum) {
  try {
    const auto opened = open_record(keys, kind, id, record, to);
    if (!opened.ok()) return opened.error();
  } catch (const std::bad_alloc&) {
    return Refused{Refusal::kIo, "not enough memory to open it"};
  }
  if (digest_of(to) == sum) return std::nullopt;
  return Refused{Refusal::kContents, "a part of the snapshot is not the one that its manifest lists"};
}

}  // namespace

// -- the store

TierSettings tier_settings(const DiskTierSettings& disk) {
  return {.tier = protocol::Tier::kDisk,
          .open_store = [folder = disk.folder] { return std::make_unique<FolderStore>(folder); },
          .breaker = std::make_shared<StoreBreaker>(),
          .master_key = disk.master_key,
          .max_bytes = disk.max_bytes,
          .ttl = disk.ttl,
          .even_if_slower = disk.even_if_slower,
          .pack = disk.pack,
          .loading_bytes = disk.loading_bytes,
          .log = disk.log,
          .buffers = disk.buffers};
}

TierSettings tier_settings(const RemoteTierSettings& remote) {
  const auto breaker = std::make_shared<StoreBreaker>();
  return {
      .tier = protocol::Tier::kRemote,
      .open_store = [redis = *remote.redis, breaker] { return std::make_unique<RedisStore>(redis, breaker); },
      .breaker = breaker,
      .master_key = remote.master_key,
      .max_bytes = 0,
      .ttl = remote.redis->ttl,
      .even_if_slower = remote.even_if_slower,
      .pack = remote.pack,
      .loading_bytes = remote.loading_bytes,
      .retry = remote.retry,
      .log = remote.log,
      .buffers = remote.buffers};
}

// -- names

NamespaceKeys name_keys(const Key& master) {
  return keys_of(master, 0, "named snapshots");  // model 0 has no namespace of states
}

RecordId name_record(const NamespaceKeys& keys, const protocol::NameOwner& owner, const std::string& name) {
  // Names contain no line break.
  const std::string whole = name + '\n' + protocol::name_space_of(owner.tenant, owner.salt);
  return id_of(keyed_digest(keys.names, "name", std::as_bytes(std::span(whole))));
}

std::vector<protocol::StoredName> read_names(RecordStore& store, const Key& master) {
  const NamespaceKeys keys = name_keys(master);
  std::vector<protocol::StoredName> names;
  for (const RecordId& id : store.records(keys.folder, FileKind::kName)) {
    const auto file = store.read(keys.folder, FileKind::kName, id, kMaxNameRecord);
    if (!file.ok()) continue;
    const auto opened = open_record(keys, RecordKind::kName, id, *file, kMaxNameRecord);
    auto name = opened.ok() ? protocol::stored_name_of(opened->contents) : std::nullopt;
    if (!name || name_record(keys, name->owner, name->snapshot.name) != id) continue;
    names.push_back(std::move(*name));
  }
  return names;
}

// -- reading

Outcome<Manifest, Refused> StoreReader::read_manifest(const RecordId& folder, const RecordId& id) {
  auto file = store_->read(folder, FileKind::kManifest, id, kMaxManifest);
  if (!file.ok()) return file.error();
  return open_manifest(settings_.master_key, folder, id, *file);
}

void StoreReader::note(const Refused& refused, const RecordId& folder, const RecordId& manifest) {
  if (logged_.size() >= kMaxNoted) logged_.clear();
  if (refused_.size() >= kMaxNoted) refused_.clear();
  if (refused.why != Refusal::kIo) refused_.insert(manifest);
  if (!logged_.insert(manifest).second) return;
  TierFigures::add(figures_->refused[static_cast<std::size_t>(refused.why)]);
  if (settings_.log) {
    settings_.log("a snapshot on " + std::string(name_of(settings_.tier)) + " is not used (" +
                  std::string(name_of(refused.why)) + "): m" + manifest.hex() + ": " + refused.message);
  }
  if (!is_hopeless(refused.why) || store_->remove(folder, FileKind::kManifest, manifest)) return;
  refused_.erase(manifest);
  logged_.erase(manifest);
}

ReadManifests::Reply StoreReader::on(ReadManifests job) {
  static constexpr traces::ZoneSite kSite{"read manifests"};
  const traces::Zone zone(kSite);
  const RecordId& folder = job.keys.folder;
  ReadManifests::Reply read;
  const std::optional<std::int64_t> changed = store_->changed(folder);
  read.complete = changed && *changed == job.since;
  if (!changed || read.complete) return read;
  const std::optional<std::vector<RecordId>> all = store_->manifests(folder);
  if (!all) return read;
  std::set<RecordId> gone(job.known.begin(), job.known.end());
  std::size_t failed = 0;
  for (const RecordId& id : *all) {
    if (gone.erase(id) > 0 || refused_.contains(id)) continue;
    const auto manifest = read_manifest(folder, id);
    if (!manifest.ok()) {
      if (settings_.breaker->is_open()) return read;  // the rest is read when the store is reachable again
      if (manifest.error().why != Refusal::kMissing) note(manifest.error(), folder, id);
      if (manifest.error().why == Refusal::kIo && ++failed >= kMaxFailed) return read;
      continue;
    }
    if (auto entry = NamespaceIndex::entry_of(job.keys, job.kind, id, *manifest)) {
      read.added.push_back(std::move(*entry));
    }
    for (std::size_t i = 0; i < manifest->references.size(); ++i) {
      read.sums.emplace_back(manifest->references[i], manifest->sums[i]);
    }
  }
  read.gone.assign(gone.begin(), gone.end());
  read.changed = *changed;
  read.complete = failed == 0;
  return read;
}

ReadState::Reply StoreReader::on(ReadState job) {
  static constexpr traces::ZoneSite kSite{"read state"};
  const traces::Zone zone(kSite);
  const auto began = std::chrono::steady_clock::now();
  auto read = read_state(job);
  if (!read.ok()) {
    if (!settings_.breaker->is_open()) note(read.error(), job.keys.folder, job.manifest);
    return read;
  }
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - began;
  TierFigures::add(figures_->loaded);
  TierFigures::add(figures_->loaded_tokens, job.at);
  TierFigures::add(figures_->loaded_bytes, (*read)->bytes.size());
  TierFigures::add(figures_->load_ns, static_cast<std::uint64_t>(took.count()));
  store_->touch(job.keys.folder, FileKind::kManifest, job.manifest, std::chrono::seconds(0));
  logged_.erase(job.manifest);
  return read;
}

Outcome<protocol::SharedHostState, Refused> StoreReader::read_state(const ReadState& job) {
  const RecordId& folder = job.keys.folder;
  const protocol::StateKind& kind = job.kind;
  auto manifest = read_manifest(folder, job.manifest);
  if (!manifest.ok()) return manifest.error();
  if (!(manifest->kind == kind)) {
    const bool arithmetic = manifest->kind.arithmetic != kind.arithmetic;
    return Refused{arithmetic ? Refusal::kArithmetic : Refusal::kSize,
                   "its state has another layout or is of another device"};
  }
  const bool cut = job.at < manifest->stored && kind.any_token && job.at % kind.page_tokens == 0;
  if ((job.at != manifest->stored && !cut) ||
      !std::equal(manifest->tokens.begin(), manifest->tokens.begin() + job.at, job.prompt->begin())) {
    return Refused{Refusal::kContents, "it holds other tokens"};
  }
  auto state = std::make_shared<protocol::HostState>();
  state->stored = job.at;
  state->logical = manifest->logical - (manifest->stored - job.at);
  state->counted = job.counted;
  const std::size_t pages = kind.page_bytes == 0 ? 0 : (job.at + kind.page_tokens - 1) / kind.page_tokens;
  const auto memory = std::make_shared<gpu::HostBytes>();
  try {
    *memory = gpu::take_transfer(settings_.buffers.get(), pages * kind.page_bytes + kind.slot_bytes);
  } catch (const std::bad_alloc&) {
    return Refused{Refusal::kIo, "not enough memory to read it"};
  }
  const std::span<std::byte> bytes = memory->span();
  state->bytes = bytes;
  state->memory = memory;
  struct Chunk {
    RecordKind kind;
    std::size_t reference;  // index in the manifest
    std::span<std::byte> to;
    std::optional<Refused> refused{};
    bool is_wrong = false;  // it was read and is invalid
  };
  std::vector<Chunk> chunks;
  // The largest first: reading overlaps better then.
  for (std::size_t i = manifest->first_of_slot(); i < manifest->references.size(); ++i) {
    const Manifest::Chunk piece = manifest->chunk(i);
    chunks.push_back(
        {RecordKind::kSlot, i, bytes.last(kind.slot_bytes).subspan(piece.piece * kSlotPiece, piece.bytes)});
  }
  for (std::size_t i = 0; i < pages; ++i) {
    const bool full = (i + 1) * kind.page_tokens <= job.at;
    chunks.push_back({full ? RecordKind::kPage : RecordKind::kTail, i,
                      bytes.subspan(i * kind.page_bytes, kind.page_bytes)});
  }
  std::vector<RecordStore::Wanted> wanted;
  for (const Chunk& chunk : chunks) {
    wanted.push_back({.id = manifest->references[chunk.reference], .most = record_bytes(0, chunk.to.size())});
  }
  // Called by several threads in parallel, each with a different chunk.
  const auto open = [&](std::size_t which, const Outcome<std::span<const std::byte>, Refused>& record) {
    Chunk& chunk = chunks[which];
    chunk.refused = record.ok() ? unlike(chunk.kind, wanted[which].id, *record, chunk.to, job.keys,
                                         manifest->sums[chunk.reference])
                                : std::optional<Refused>(record.error());
    chunk.is_wrong = record.ok() && chunk.refused && chunk.refused->why != Refusal::kIo;
    return !chunk.refused;
  };
  store_->read_each(folder, FileKind::kChunk, wanted, open);
  ForgetSums wrong;
  for (const Chunk& chunk : chunks) {
    if (chunk.is_wrong) wrong.chunks.push_back(manifest->references[chunk.reference]);
  }
  if (!wrong.chunks.empty()) writer_.tell(std::move(wrong));
  for (const Chunk& chunk : chunks) {
    if (chunk.refused) return *chunk.refused;
  }
  return protocol::SharedHostState(std::move(state));
}

// Blocks while snapshots are written, for a while.
RecordStore::Hold StoreReader::hold_for_removing() {
  for (int tries = 0; tries < kLockTries; ++tries) {
    auto held = store_->hold_for_removing();
    if (!held.ok()) break;
    if (*held) return *held;
    std::this_thread::sleep_for(kLockPause);
  }
  return nullptr;
}

RemoveStates::Reply StoreReader::on(RemoveStates job) {
  const RecordId& folder = job.keys.folder;
  const auto wrong = std::span<const TokenId>(*job.tokens).first(job.length);
  RemoveStates::Reply removed;
  std::vector<std::pair<RecordId, std::vector<RecordId>>> others;  // with their references
  std::set<RecordId> chunks;                                       // of wrong states
  int tries = kReadTries;
  for (const RecordId& id : store_->manifests(folder).value_or(std::vector<RecordId>{})) {
    auto manifest = read_manifest(folder, id);
    for (; !manifest.ok() && manifest.error().why == Refusal::kIo && tries > 0; --tries) {
      std::this_thread::sleep_for(kLockPause);
      manifest = read_manifest(folder, id);
    }
    if (!manifest.ok()) {  // it may be wrong
      if (manifest.error().why == Refusal::kIo) removed.push_back(id);
    } else if (manifest->stored >= job.length &&
               std::equal(wrong.begin(), wrong.end(), manifest->tokens.begin())) {
      removed.push_back(id);
      chunks.insert(manifest->references.begin(), manifest->references.end());
    } else {
      others.emplace_back(id, manifest->references);
    }
  }
  for (const auto& [id, references] : others) {
    const bool shares = std::any_of(references.begin(), references.end(),
                                    [&](const RecordId& chunk) { return chunks.contains(chunk); });
    if (shares) removed.push_back(id);
  }
  bool all = true;
  for (const RecordId& id : removed) all = !store_->remove(folder, FileKind::kManifest, id) && all;
  writer_.tell(ForgetSums{{chunks.begin(), chunks.end()}});
  // Without the hold they stay, and are collected or written again.
  const RecordStore::Hold held = hold_for_removing();
  if (!held || !all || store_->sync(folder)) return removed;
  for (const RecordId& chunk : chunks) static_cast<void>(store_->remove(folder, FileKind::kChunk, chunk));
  return removed;
}

protocol::FetchTurns::Reply StoreReader::on(const protocol::FetchTurns& job) {
  protocol::FetchTurns::Reply found;
  const NamespaceKeys keys = keys_of(settings_.master_key, job.model, job.name_space);
  for (const std::string& name : job.names) {
    const RecordId id = turn_record(keys, name);
    const auto file = store_->read(keys.folder, FileKind::kTurn, id, kMaxTurnRecord);
    if (!file.ok()) {
      if (settings_.breaker->is_open()) break;
      continue;
    }
    const auto opened = open_record(keys, RecordKind::kTurn, id, *file, kMaxTurnRecord);
    auto turn = opened.ok() ? protocol::sampled_turn_of(opened->contents) : std::nullopt;
    if (!turn || turn->name != name) {
      static_cast<void>(store_->remove(keys.folder, FileKind::kTurn, id));
      continue;
    }
    store_->touch(keys.folder, FileKind::kTurn, id, std::chrono::seconds(0));
    found.push_back(std::make_shared<const protocol::SampledTurn>(std::move(*turn)));
  }
  return found;
}

// -- writing

void StoreWriter::on_start() {
  TierFigures::set(figures_->budget_bytes, settings_.max_bytes);
  if (const auto trouble = store_->prepare()) fail(*trouble);
  bytes_ = store_->bytes();
  publish();
  launch(write_all());
  launch(tend());
}

void StoreWriter::on(StoreState job) {
  if (off_) return;
  if (!waiting_.push(std::move(job))) TierFigures::add(figures_->overtaken);
  publish();
}

void StoreWriter::on(const StoreTurn& job) {
  if (off_) return;
  const NamespaceKeys keys = keys_of(settings_.master_key, job.model, job.name_space);
  const RecordId id = turn_record(keys, job.turn->name);
  const std::vector<std::byte> record =
      seal_record(keys, RecordKind::kTurn, id, {}, protocol::to_bytes(*job.turn));
  if (record.size() > kMaxTurnRecord || !make_room(record.size())) return;
  if (const auto trouble = store_->write(keys.folder, FileKind::kTurn, id, record)) return fail(*trouble);
  bytes_ += record.size();
  publish();
}

// A deleted name must not reappear, so it is removed even if writes are off.
void StoreWriter::on(const protocol::NameChange& change) {
  const NamespaceKeys keys = name_keys(settings_.master_key);
  const RecordId id = name_record(keys, change.owner, change.name);
  if (change.went) {
    auto trouble = store_->remove(keys.folder, FileKind::kName, id);
    if (!trouble) trouble = store_->sync(keys.folder);
    if (trouble && trouble->code != ENOENT && !off_) fail(*trouble);
    return;
  }
  const std::shared_ptr<const protocol::NamedSnapshot> snapshot = change.snapshot.lock();
  if (off_ || snapshot == nullptr) return;
  const std::vector<std::byte> record =
      seal_record(keys, RecordKind::kName, id, {}, protocol::to_bytes(change.owner, *snapshot));
  if (record.size() > kMaxNameRecord || !make_room(record.size())) {
    TierFigures::add(figures_->no_room);
    return;
  }
  auto trouble = store_->write(keys.folder, FileKind::kName, id, record);
  if (!trouble) {
    const std::int64_t left = snapshot->expires - std::time(nullptr);
    store_->touch(keys.folder, FileKind::kName, id, std::chrono::seconds(std::max<std::int64_t>(left, 0)));
    trouble = store_->sync(keys.folder);
  }
  if (trouble) return fail(*trouble);
  bytes_ += record.size();
  publish();
}

void StoreWriter::on(KnownSums known) {
  if (sums_.size() + known.sums.size() > kMaxSums)
    sums_.clear();  // chunks without a known digest are written again
  for (const auto& [id, sum] : known.sums) sums_[id] = sum;
}

void StoreWriter::on(const ForgetSums& wrong) {
  for (const RecordId& chunk : wrong.chunks) sums_.erase(chunk);
}

void StoreWriter::publish() {
  TierFigures::set(figures_->bytes, bytes_);
  TierFigures::set(figures_->waiting, waiting_.size() + (writes_ ? 1 : 0));
}

// -- writing

Task<void> StoreWriter::write_all() {
  for (;;) {
    Task<std::optional<StoreState>> waiting = waiting_.next();
    std::optional<StoreState> job = co_await waiting;
    if (!job) co_return;
    writes_ = true;
    Task<void> writing = write(std::move(*job));
    co_await writing;
    writes_ = false;
    publish();
  }
}

Task<void> StoreWriter::write(StoreState job) {
  SnapshotPlan plan = plan_snapshot(settings_.master_key, job);
  if (store_->exists(plan.keys.folder, FileKind::kManifest, plan.id, kMaxManifest)) {
    store_->touch(plan.keys.folder, FileKind::kManifest, plan.id, job.retention);
    co_return;
  }
  Task<RecordStore::Hold> preparing = prepare_to_write(plan);
  const RecordStore::Hold held = co_await preparing;
  if (!held) {
    if (!off_) TierFigures::add(figures_->no_room);
    co_return;
  }
  const TakeChunk take = [&](std::size_t chunk, std::span<const std::byte> contents) {
    return write_chunk(plan, chunk, contents);
  };
  Task<ChunksRead> reading = read_chunks(job, plan, settings_.buffers.get(), take);
  const ChunksRead read = co_await reading;
  if (read == ChunksRead::kGone) TierFigures::add(figures_->overtaken);
  if (read != ChunksRead::kAll) co_return;
  if (!write_manifest(plan)) co_return;
  if (job.retention.count() > 0) store_->touch(plan.keys.folder, FileKind::kManifest, plan.id, job.retention);
  if (auto entry = NamespaceIndex::entry_of(plan.keys, job.kind, plan.id, plan.manifest)) {
    above_.tell(StateStored{.folder = plan.keys.folder, .kind = job.kind, .entry = std::move(*entry)});
  }
}

std::uint64_t StoreWriter::note_existing(SnapshotPlan& plan) {
  const std::vector<RecordId>& references = plan.manifest.references;
  std::uint64_t missing =
      record_bytes(plan.chunks(), 4096 + 4 * std::uint64_t{plan.manifest.stored} + 8 * plan.chunks());
  plan.there.assign(plan.chunks(), false);
  for (std::size_t i = 0; i < plan.chunks(); ++i) {
    const auto known = sums_.find(references[i]);
    const std::uint64_t bytes = record_bytes(0, plan.bytes_of(i));
    plan.there[i] =
        known != sums_.end() && store_->exists(plan.keys.folder, FileKind::kChunk, references[i], bytes);
    if (plan.there[i]) plan.manifest.sums[i] = known->second;
    if (!plan.there[i]) missing += bytes;
  }
  return missing;
}

// Making room may remove chunks that the snapshot would share, and so may other processes until the store is
// held.
Task<RecordStore::Hold> StoreWriter::prepare_to_write(SnapshotPlan& plan) {
  std::uint64_t room = 0;
  for (int tries = 0; tries < kRoomTries; ++tries) {
    room = std::max(room, note_existing(plan));
    if (!make_room(room)) break;
    Task<RecordStore::Hold> holding = hold_for_writing();
    RecordStore::Hold held = co_await holding;
    if (!held) break;
    const std::uint64_t missing = note_existing(plan);
    if (missing <= room) co_return held;
    room = missing;
  }
  co_return nullptr;
}

// Waits for a hold that excludes collection: it would remove chunks that no manifest refers to yet.
Task<RecordStore::Hold> StoreWriter::hold_for_writing() {
  for (int tries = 0; tries < kLockTries; ++tries) {
    const auto held = store_->hold_for_writing();
    if (!held.ok()) {
      fail(held.error());
      break;
    }
    if (*held) co_return *held;
    auto pause = runtime::sleep_for(kLockPause);
    const Result<void> rested = co_await pause;
    if (!rested.ok()) break;
  }
  co_return nullptr;
}

bool StoreWriter::write_chunk(SnapshotPlan& plan, std::size_t reference,
                              std::span<const std::byte> contents) {
  static constexpr traces::ZoneSite kSite{"write chunk"};
  const traces::Zone zone(kSite);
  const RecordId& id = plan.manifest.references[reference];
  const std::vector<std::byte> record =
      seal_chunk(plan.keys, plan.kind_of(reference), id, contents, settings_.pack);
  if (const auto trouble = store_->write(plan.keys.folder, FileKind::kChunk, id, record)) {
    fail(*trouble);
    return false;
  }
  if (sums_.size() >= kMaxSums) sums_.clear();
  plan.manifest.sums[reference] = sums_[id] = digest_of(contents);
  bytes_ += record.size();
  TierFigures::add(figures_->stored_bytes, record.size());
  return true;
}

bool StoreWriter::write_manifest(const SnapshotPlan& plan) {
  const std::vector<std::byte> record = seal_manifest(plan.keys, plan.id, plan.manifest);
  auto trouble = store_->sync(plan.keys.folder);
  if (!trouble) trouble = store_->write(plan.keys.folder, FileKind::kManifest, plan.id, record);
  if (!trouble) trouble = store_->sync(plan.keys.folder);
  if (trouble) {
    fail(*trouble);
    return false;
  }
  bytes_ += record.size();
  TierFigures::add(figures_->stored);
  TierFigures::add(figures_->stored_bytes, record.size());
  return true;
}

// -- the bound

bool StoreWriter::make_room(std::uint64_t bytes) {
  if (settings_.max_bytes == 0) return true;
  if (bytes > settings_.max_bytes) return false;
  if (bytes_ + bytes <= settings_.max_bytes) return true;
  // Frees a tenth more, since more snapshots will follow.
  return collect((settings_.max_bytes - bytes) / 10 * 9) && bytes_ + bytes <= settings_.max_bytes;
}

bool StoreWriter::collect(std::uint64_t max_bytes) {
  static constexpr traces::ZoneSite kSite{"collect snapshots"};
  const traces::Zone zone(kSite);
  const auto collected =
      store_->collect({.max_bytes = max_bytes, .ttl = settings_.ttl, .now = std::time(nullptr)});
  if (!collected.ok()) fail(collected.error());
  if (!collected.ok() || !*collected) return false;
  const std::optional<RecordStore::Collected>& done = *collected;
  bytes_ = done->bytes_left;
  TierFigures::add(figures_->evicted, done->evicted);
  TierFigures::add(figures_->expired, done->expired);
  if (!done->manifests.empty()) above_.tell(StatesGone{done->manifests});
  return true;
}

// Periodically retries a store that failed, and removes expired snapshots and, over the bound, those of all
// writers.
Task<void> StoreWriter::tend() {
  for (;;) {
    auto pause = runtime::sleep_for(settings_.retry);
    const Result<void> rested = co_await pause;
    if (!rested.ok()) co_return;
    if (!off_ && settings_.breaker->is_open()) fail({0, store_->where() + " does not answer"});
    if (off_ && store_->prepare()) continue;
    const std::uint64_t failures = figures_->failures.load(std::memory_order_relaxed);
    if (settings_.max_bytes != 0) collect(settings_.max_bytes);
    if (off_ && figures_->failures.load(std::memory_order_relaxed) == failures) {
      off_ = false;
      TierFigures::set(figures_->off, 0);
      if (settings_.log) settings_.log("cache tier: writes to " + store_->where() + " enabled again");
    }
    publish();
  }
}

void StoreWriter::fail(const IoTrouble& trouble) {
  TierFigures::add(figures_->failures);
  waiting_.clear();
  if (std::exchange(off_, true)) return;
  TierFigures::set(figures_->off, 1);
  if (settings_.log) {
    settings_.log("cache tier: writes disabled: " + trouble.message + "; retrying every " +
                  std::to_string(std::chrono::duration_cast<std::chrono::seconds>(settings_.retry).count()) +
                  " s");
  }
}

}  // namespace reprise::actors
