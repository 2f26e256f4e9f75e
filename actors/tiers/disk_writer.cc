#include "actors/tiers/disk_writer.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/digest.h"
#include "protocol/snapshots/collection.h"
#include "runtime/wait.h"
#include "traces/trace.h"

namespace reprise::actors {

using namespace protocol::snapshots;
using protocol::StoreState;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::chrono::minutes kDeviceDeadline{1};
constexpr std::uint64_t kReadAtOnce = 4u << 20;  // bytes that a device copies without computing
constexpr std::chrono::milliseconds kIdlePause{200};
constexpr std::chrono::milliseconds kLockPause{20};
constexpr int kLockTries = 100;
constexpr std::size_t kMostSums = 1u << 20;

}  // namespace

/// A snapshot on its way into the folder.
struct DiskWriter::Plan {
  NamespaceKeys keys;
  RecordId id;
  Manifest manifest;
  std::optional<FolderLock> lock{};

  std::size_t chunks() const { return manifest.references.size(); }
  bool is_slot(std::size_t reference) const { return manifest.has_slot() && reference + 1 == chunks(); }
  RecordKind kind_of(std::size_t reference) const {
    if (is_slot(reference)) return RecordKind::kSlot;
    return reference < manifest.full_pages() ? RecordKind::kPage : RecordKind::kTail;
  }
  std::uint64_t bytes_of(std::size_t reference) const {
    return is_slot(reference) ? manifest.kind.slot_bytes : manifest.kind.page_bytes;
  }
};

void DiskWriter::on_start() {
  TierFigures::set(figures_->budget_bytes, settings_.most_bytes);
  if (auto trouble = folder_.prepare()) {
    fail(*trouble);
  } else if ((trouble = folder_.probe())) {
    fail(*trouble);
  }
  for (const FolderFile& file : folder_.scan()) bytes_ += file.bytes;
  publish();
  launch(write_all());
  launch(tend());
}

void DiskWriter::on(StoreState job) {
  if (off_) return;
  auto& queue = job.device_is_idle ? idle_waiting_ : waiting_;
  queue.push_back(std::move(job));
  if (queue.size() > kMostWaiting) {
    queue.pop_front();
    TierFigures::add(figures_->overtaken);
  }
  publish();
  came_.signal();
}

void DiskWriter::on(KnownSums known) {
  if (sums_.size() + known.sums.size() > kMostSums) sums_.clear();  // what is not known is written again
  for (const auto& [id, sum] : known.sums) sums_[id] = sum;
}

void DiskWriter::publish() {
  TierFigures::set(figures_->bytes, bytes_);
  TierFigures::set(figures_->waiting, waiting_.size() + idle_waiting_.size() + (writes_ ? 1 : 0));
}

// -- writing

Task<void> DiskWriter::write_all() {
  for (;;) {
    if (!waiting_.empty() || (!idle_waiting_.empty() && idle_waiting_.front().device_is_idle())) {
      auto& queue = waiting_.empty() ? idle_waiting_ : waiting_;
      StoreState job = std::move(queue.front());
      queue.pop_front();
      writes_ = true;
      Task<void> writing = write(std::move(job));
      co_await writing;
      writes_ = false;
      publish();
      continue;
    }
    const runtime::TimePoint deadline =
        idle_waiting_.empty() ? runtime::TimePoint::max() : runtime::deadline_after(kIdlePause);
    auto waiting = came_.wait(deadline);
    const Result<void> woken = co_await waiting;
    if (!woken.ok() && woken.error().code != runtime::ErrorCode::kDeadline) co_return;
  }
}

Task<void> DiskWriter::write(StoreState job) {
  Plan plan{.keys = keys_of(settings_.master_key, job.kind.model, job.name_space), .id = {}, .manifest = {}};
  const auto tokens = std::span<const TokenId>(*job.tokens).first(job.at);
  const PrefixNames names(plan.keys, job.kind, tokens);
  plan.id = names.manifest(job.at);
  if (folder_.exists(plan.keys.folder, FileKind::kManifest, plan.id)) {
    folder_.touch(plan.keys.folder, FileKind::kManifest, plan.id);
    co_return;
  }
  Manifest& manifest = plan.manifest;
  manifest.name_space = job.name_space;
  manifest.kind = job.kind;
  manifest.stored = manifest.logical = job.at;
  manifest.origin = protocol::name_of(job.origin);
  manifest.created = std::time(nullptr);
  manifest.tokens.assign(tokens.begin(), tokens.end());
  for (std::size_t i = 0; i < manifest.full_pages() && job.kind.page_bytes != 0; ++i) {
    manifest.references.push_back(names.page(i));
  }
  if (manifest.has_tail()) manifest.references.push_back(names.tail(job.at));
  if (manifest.has_slot()) manifest.references.push_back(names.slot(job.at));
  manifest.sums.resize(manifest.references.size());

  std::uint64_t bytes = record_bytes(plan.chunks(), 4096 + 4 * std::uint64_t{job.at} + 8 * plan.chunks());
  for (std::size_t i = 0; i < plan.chunks(); ++i) {
    if (!is_there(plan, i)) bytes += record_bytes(0, plan.bytes_of(i));
  }
  if (!make_room(bytes)) {
    TierFigures::add(figures_->no_room);
    co_return;
  }
  Task<bool> locking = wait_for_lock(plan);
  if (!co_await locking) {
    TierFigures::add(figures_->no_room);
    co_return;
  }
  Task<bool> writing = write_chunks(job, plan);
  if (!co_await writing) co_return;
  if (!write_manifest(plan)) co_return;
  if (auto entry = NamespaceIndex::entry_of(plan.keys, job.kind, plan.id, manifest)) {
    above_.tell(StateStored{.folder = plan.keys.folder, .kind = job.kind, .entry = std::move(*entry)});
  }
}

bool DiskWriter::is_there(const Plan& plan, std::size_t reference) const {
  const RecordId& id = plan.manifest.references[reference];
  return sums_.contains(id) && folder_.exists(plan.keys.folder, FileKind::kChunk, id);
}

// Only while nobody collects are chunks safe that no manifest refers to yet.
Task<bool> DiskWriter::wait_for_lock(Plan& plan) {
  for (int tries = 0; tries < kLockTries; ++tries) {
    plan.lock = folder_.lock_shared();
    if (plan.lock) co_return true;
    auto pause = runtime::sleep_for(kLockPause);
    const Result<void> rested = co_await pause;
    if (!rested.ok()) co_return false;
  }
  co_return false;
}

Task<bool> DiskWriter::write_chunks(const StoreState& job, Plan& plan) {
  const std::uint64_t page_bytes = std::max<std::uint64_t>(plan.manifest.kind.page_bytes, 1);
  const std::size_t at_once = std::max<std::uint64_t>(kReadAtOnce / page_bytes, 1);
  for (std::size_t next = 0; next < plan.chunks();) {
    if (is_there(plan, next)) {
      plan.manifest.sums[next] = sums_.at(plan.manifest.references[next]);
      ++next;
      continue;
    }
    std::size_t end = next + 1;
    while (!plan.is_slot(next) && end < plan.chunks() && !plan.is_slot(end) && end - next < at_once &&
           !is_there(plan, end)) {
      ++end;
    }
    const bool slot = plan.is_slot(next);
    auto asked = job.worker.ask(protocol::ReadKv{.snapshot = job.snapshot,
                                                 .first_page = slot ? 0 : static_cast<std::uint32_t>(next),
                                                 .pages = slot ? 0 : static_cast<std::uint32_t>(end - next),
                                                 .slot = slot},
                                runtime::deadline_after(kDeviceDeadline));
    const protocol::JobResult<protocol::KvBytes> read = protocol::answer_of(co_await asked);
    if (!read.ok()) {  // evicted, or its model has gone
      TierFigures::add(figures_->overtaken);
      co_return false;
    }
    std::span<const std::byte> bytes = read->bytes;
    for (; next < end; ++next) {
      if (!write_chunk(plan, next, bytes.first(plan.bytes_of(next)))) co_return false;
      bytes = bytes.subspan(plan.bytes_of(next));
    }
  }
  co_return true;
}

bool DiskWriter::write_chunk(Plan& plan, std::size_t reference, std::span<const std::byte> contents) {
  static constexpr traces::ZoneSite kSite{"write chunk"};
  const traces::Zone zone(kSite);
  const RecordId& id = plan.manifest.references[reference];
  const std::vector<std::byte> record = seal_record(plan.keys, plan.kind_of(reference), id, {}, contents);
  if (const auto trouble = folder_.write(plan.keys.folder, FileKind::kChunk, id, record)) {
    fail(*trouble);
    return false;
  }
  if (sums_.size() >= kMostSums) sums_.clear();
  plan.manifest.sums[reference] = sums_[id] = digest_of(contents);
  bytes_ += record.size();
  TierFigures::add(figures_->stored_bytes, record.size());
  return true;
}

bool DiskWriter::write_manifest(const Plan& plan) {
  const std::vector<std::byte> record = seal_manifest(plan.keys, plan.id, plan.manifest);
  auto trouble = folder_.sync(plan.keys.folder);
  if (!trouble) trouble = folder_.write(plan.keys.folder, FileKind::kManifest, plan.id, record);
  if (!trouble) trouble = folder_.sync(plan.keys.folder);
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

bool DiskWriter::make_room(std::uint64_t bytes) {
  if (bytes > settings_.most_bytes) return false;
  if (bytes_ + bytes <= settings_.most_bytes) return true;
  // A tenth more than is needed: the next ones come soon.
  return collect((settings_.most_bytes - bytes) / 10 * 9) && bytes_ + bytes <= settings_.most_bytes;
}

bool DiskWriter::collect(std::uint64_t most_bytes) {
  static constexpr traces::ZoneSite kSite{"collect snapshots"};
  const traces::Zone zone(kSite);
  const std::optional<FolderLock> alone = folder_.lock_alone();
  if (!alone) return false;
  const Collection plan = plan_collection(
      folder_.scan(), {.most_bytes = most_bytes, .ttl = settings_.ttl, .now = std::time(nullptr)});
  StatesGone gone;
  for (const FolderFile& file : plan.going) {
    folder_.remove(file);
    if (file.kind == FileKind::kManifest) gone.manifests.emplace_back(file.folder, file.id);
  }
  bytes_ = plan.bytes_left;
  TierFigures::add(figures_->evicted, plan.evicted);
  TierFigures::add(figures_->expired, plan.expired);
  if (!gone.manifests.empty()) above_.tell(std::move(gone));
  return true;
}

// What others have written counts too, and what nobody uses goes in time.
Task<void> DiskWriter::tend() {
  for (;;) {
    auto pause = runtime::sleep_for(kRetry);
    const Result<void> rested = co_await pause;
    if (!rested.ok()) co_return;
    if (off_) {
      if (folder_.prepare() || folder_.probe()) continue;
      off_ = false;
      TierFigures::set(figures_->off, 0);
      if (settings_.log) settings_.log("snapshots are written to " + settings_.folder + " again");
    }
    collect(settings_.most_bytes);
    publish();
  }
}

void DiskWriter::fail(const IoTrouble& trouble) {
  TierFigures::add(figures_->failures);
  waiting_.clear();
  idle_waiting_.clear();
  if (std::exchange(off_, true)) return;
  TierFigures::set(figures_->off, 1);
  if (settings_.log) {
    settings_.log("snapshots are not written any more: " + trouble.message + "; tried again every " +
                  std::to_string(kRetry.count()) + " s");
  }
}

}  // namespace reprise::actors
