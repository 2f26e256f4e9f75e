#include "actors/tiers/snapshot_source.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <new>
#include <utility>

namespace reprise::actors {

using namespace protocol::snapshots;
using protocol::StoreState;

namespace {

constexpr std::chrono::minutes kDeviceDeadline{1};
constexpr std::uint64_t kReadAtOnce = 4u << 20;  // bytes per read, which delay the next step

constexpr std::chrono::milliseconds kIdlePause{200};

}  // namespace

// -- the queue

bool StoreQueue::push(StoreState job) {
  auto& queue = job.device_is_idle ? idle_waiting_ : waiting_;
  queue.push_back(std::move(job));
  came_.signal();
  if (queue.size() <= kMaxWaiting) return true;
  queue.pop_front();
  return false;
}

std::optional<StoreState> StoreQueue::take() {
  auto& queue = waiting_.empty() ? idle_waiting_ : waiting_;
  const auto ready = std::find_if(queue.begin(), queue.end(), [](const StoreState& job) {
    return !job.device_is_idle || job.device_is_idle();
  });
  if (ready == queue.end()) return std::nullopt;
  StoreState job = std::move(*ready);
  queue.erase(ready);
  return job;
}

runtime::Task<std::optional<StoreState>> StoreQueue::next() {
  for (;;) {
    if (std::optional<StoreState> job = take()) co_return job;
    const runtime::TimePoint deadline =
        idle_waiting_.empty() ? runtime::TimePoint::max() : runtime::deadline_after(kIdlePause);
    auto waiting = came_.wait(deadline);
    const runtime::Result<void> woken = co_await waiting;
    if (!woken.ok() && woken.error().code != runtime::ErrorCode::kDeadline) co_return std::nullopt;
  }
}

void StoreQueue::clear() {
  waiting_.clear();
  idle_waiting_.clear();
}

// -- one snapshot

SnapshotPlan plan_snapshot(const Key& master, const StoreState& job) {
  SnapshotPlan plan{.keys = keys_of(master, job.kind.model, job.name_space)};
  const auto tokens = std::span<const TokenId>(*job.tokens).first(job.at);
  const PrefixNames names(plan.keys, job.kind, tokens);
  plan.id = names.manifest(job.at);
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
  for (std::size_t i = 0; i < slot_pieces(job.kind); ++i)
    manifest.references.push_back(names.slot(job.at, i));
  manifest.sums.resize(manifest.references.size());
  return plan;
}

runtime::Task<ChunksRead> read_chunks(const StoreState& job, const SnapshotPlan& plan,
                                      gpu::TransferBuffers* buffers, const TakeChunk& take) {
  const std::uint64_t page_bytes = std::max<std::uint64_t>(plan.manifest.kind.page_bytes, 1);
  const std::size_t at_once = std::max<std::uint64_t>(kReadAtOnce / page_bytes, 1);
  for (std::size_t next = 0; next < plan.chunks();) {
    if (plan.is_there(next)) {
      ++next;
      continue;
    }
    const bool slot = plan.is_slot(next);  // a slot is read whole
    if (slot) next = plan.manifest.first_of_slot();
    std::size_t end = slot ? plan.chunks() : next + 1;
    while (!slot && end < plan.chunks() && !plan.is_slot(end) && end - next < at_once &&
           !plan.is_there(end)) {
      ++end;
    }
    std::size_t size = 0;
    for (std::size_t i = next; i < end; ++i) size += plan.bytes_of(i);
    std::shared_ptr<gpu::HostBytes> room;
    try {
      room = std::make_shared<gpu::HostBytes>(gpu::take_transfer(buffers, size));
    } catch (const std::bad_alloc&) {
      co_return ChunksRead::kNotWanted;
    }
    auto asked = job.worker.ask(protocol::ReadKv{.snapshot = job.snapshot,
                                                 .first_page = slot ? 0 : static_cast<std::uint32_t>(next),
                                                 .pages = slot ? 0 : static_cast<std::uint32_t>(end - next),
                                                 .slot = slot,
                                                 .to = room->span(),
                                                 .memory = room},
                                runtime::deadline_after(kDeviceDeadline));
    const protocol::ReadKv::Reply read = protocol::answer_of(co_await asked);
    if (!read.ok()) co_return ChunksRead::kGone;  // evicted, or its model was unloaded
    std::span<const std::byte> bytes = room->span();
    for (; next < end; ++next) {
      const auto contents = bytes.first(plan.bytes_of(next));
      if (!plan.is_there(next) && !take(next, contents)) co_return ChunksRead::kNotWanted;
      bytes = bytes.subspan(contents.size());
    }
  }
  co_return ChunksRead::kAll;
}

}  // namespace reprise::actors
