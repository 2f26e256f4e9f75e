#include "actors/tiers/store_writer.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "actors/tiers/name_records.h"
#include "base/digest.h"
#include "protocol/snapshots/manifest.h"
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
constexpr std::size_t kMostSums = 1u << 20;

}  // namespace

void StoreWriter::on_start() {
  TierFigures::set(figures_->budget_bytes, settings_.most_bytes);
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

// A name that was deleted must not come back: it is removed whatever the store is like.
void StoreWriter::on(const protocol::NameChange& change) {
  const NamespaceKeys keys = name_keys(settings_.master_key);
  const RecordId id = name_record(keys, change.owner, change.name);
  if (change.went) {
    store_->remove(keys.folder, FileKind::kName, id);
    static_cast<void>(store_->sync(keys.folder));
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
  if (sums_.size() + known.sums.size() > kMostSums) sums_.clear();  // what is not known is written again
  for (const auto& [id, sum] : known.sums) sums_[id] = sum;
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
  if (store_->exists(plan.keys.folder, FileKind::kManifest, plan.id)) {
    store_->touch(plan.keys.folder, FileKind::kManifest, plan.id, job.retention);
    co_return;
  }
  std::uint64_t bytes = record_bytes(plan.chunks(), 4096 + 4 * std::uint64_t{job.at} + 8 * plan.chunks());
  for (std::size_t i = 0; i < plan.chunks(); ++i) {
    plan.there.push_back(is_there(plan, i));
    if (!plan.there[i]) bytes += record_bytes(0, plan.bytes_of(i));
  }
  if (!make_room(bytes)) {
    TierFigures::add(figures_->no_room);
    co_return;
  }
  Task<std::shared_ptr<void>> holding = hold_for_writing();
  const std::shared_ptr<void> held = co_await holding;
  if (!held) {
    TierFigures::add(figures_->no_room);
    co_return;
  }
  for (std::size_t i = 0; i < plan.chunks(); ++i) {
    if (plan.there[i]) plan.manifest.sums[i] = sums_.at(plan.manifest.references[i]);
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

bool StoreWriter::is_there(const SnapshotPlan& plan, std::size_t reference) {
  const RecordId& id = plan.manifest.references[reference];
  return sums_.contains(id) && store_->exists(plan.keys.folder, FileKind::kChunk, id);
}

// Only while nobody collects are chunks safe that no manifest refers to yet.
Task<std::shared_ptr<void>> StoreWriter::hold_for_writing() {
  for (int tries = 0; tries < kLockTries; ++tries) {
    std::shared_ptr<void> held = store_->hold_for_writing();
    if (held) co_return held;
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
  if (sums_.size() >= kMostSums) sums_.clear();
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
  if (settings_.most_bytes == 0) return true;
  if (bytes > settings_.most_bytes) return false;
  if (bytes_ + bytes <= settings_.most_bytes) return true;
  // A tenth more than is needed: the next ones come soon.
  return collect((settings_.most_bytes - bytes) / 10 * 9) && bytes_ + bytes <= settings_.most_bytes;
}

bool StoreWriter::collect(std::uint64_t most_bytes) {
  static constexpr traces::ZoneSite kSite{"collect snapshots"};
  const traces::Zone zone(kSite);
  const std::optional<RecordStore::Collected> done =
      store_->collect({.most_bytes = most_bytes, .ttl = settings_.ttl, .now = std::time(nullptr)});
  if (!done) return false;
  bytes_ = done->bytes_left;
  TierFigures::add(figures_->evicted, done->evicted);
  TierFigures::add(figures_->expired, done->expired);
  if (!done->manifests.empty()) above_.tell(StatesGone{done->manifests});
  return true;
}

// What others have written counts too, and what nobody uses goes in time.
Task<void> StoreWriter::tend() {
  for (;;) {
    auto pause = runtime::sleep_for(settings_.retry);
    const Result<void> rested = co_await pause;
    if (!rested.ok()) co_return;
    if (!off_ && settings_.breaker->is_open()) fail({0, store_->where() + " does not answer"});
    if (off_) {
      if (store_->prepare()) continue;
      off_ = false;
      TierFigures::set(figures_->off, 0);
      if (settings_.log) settings_.log("cache tier: writes to " + store_->where() + " enabled again");
    }
    if (settings_.most_bytes != 0) collect(settings_.most_bytes);
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
