#include "actors/tiers/host_tier.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/digest.h"
#include "base/in_parallel.h"
#include "runtime/wait.h"
#include "traces/trace.h"

namespace reprise::actors {

using protocol::Fetched;
using protocol::FoundState;
using protocol::MissReason;
using protocol::StoreState;
using protocol::snapshots::NamespaceKeys;
using protocol::snapshots::PrefixNames;
using runtime::Task;

namespace {

constexpr int kHostTries = 3;

/// Returns a random key, so that no one else can compute record names.
protocol::snapshots::Key key_of_this_process() {
  std::string secret;
  for (int i = 0; i < 4; ++i) {
    for (const std::byte byte : protocol::snapshots::new_nonce()) secret += static_cast<char>(byte);
  }
  return protocol::snapshots::master_key(secret);
}

}  // namespace

// -- bytes with digests

SummedBytes::SummedBytes(std::span<const std::byte> contents)
    : bytes_(new std::byte[contents.size()]),  // uninitialized: filled by the copy
      size_(contents.size()),
      sums_((contents.size() + kPiece - 1) / kPiece) {
  in_parallel(sums_.size(), [&](std::size_t i) {
    const auto piece = contents.subspan(i * kPiece, std::min(kPiece, size_ - i * kPiece));
    std::memcpy(bytes_.get() + i * kPiece, piece.data(), piece.size());
    sums_[i] = digest_of(piece);
  });
}

bool copy_compared(std::span<const SummedBytes* const> parts, std::span<std::byte> to) {
  struct Piece {
    std::span<const std::byte> from;
    std::byte* to;
    std::uint64_t sum;
  };
  std::vector<Piece> pieces;
  std::size_t at = 0;
  for (const SummedBytes* part : parts) {
    const std::span<const std::byte> bytes = part->contents();
    REPRISE_CHECK(bytes.size() <= to.size() - at, "the destination is smaller than the copied blocks");
    for (std::size_t i = 0; i < part->sums_.size(); ++i) {
      const std::size_t begin = i * SummedBytes::kPiece;
      const std::size_t count = std::min(SummedBytes::kPiece, bytes.size() - begin);
      pieces.push_back(
          {.from = bytes.subspan(begin, count), .to = to.data() + at + begin, .sum = part->sums_[i]});
    }
    at += bytes.size();
  }
  REPRISE_CHECK(at == to.size(), "the destination is larger than the copied blocks");
  std::atomic<bool> same{true};  // relaxed: joining the threads publishes it
  in_parallel(pieces.size(), [&](std::size_t i) {
    const Piece& piece = pieces[i];
    if (!same.load(std::memory_order_relaxed)) return;
    if (digest_of(piece.from) != piece.sum) return same.store(false, std::memory_order_relaxed);
    std::memcpy(piece.to, piece.from.data(), piece.from.size());
  });
  return same.load(std::memory_order_relaxed);
}

// -- the tier

HostTier::HostTier(HostTierSettings settings, std::shared_ptr<TierFigures> figures)
    : settings_(std::move(settings)),
      figures_(std::move(figures)),
      master_(key_of_this_process()),
      loading_(settings_.loading_bytes) {}

void HostTier::on_start() {
  TierFigures::set(figures_->budget_bytes, settings_.max_bytes);
  publish();
  if (settings_.buffers) settings_.buffers->prepare();  // before the first request
  launch(keep_all());
}

void HostTier::publish() {
  TierFigures::set(figures_->bytes, bytes_);
  TierFigures::set(figures_->waiting, waiting_.size());
}

const HostTier::Space* HostTier::find_space(const protocol::StateKind& kind,
                                            const std::string& name_space) const {
  const NamespaceKeys keys = protocol::snapshots::keys_of(master_, kind.model, name_space);
  const auto found = spaces_.find({keys.folder, kind.arithmetic});
  return found == spaces_.end() ? nullptr : &found->second;
}

// -- bringing

FoundState HostTier::on(protocol::FindState job) {
  const Space* space = find_space(job.wish.kind, job.wish.name_space);
  if (space == nullptr) return {};
  const PrefixNames names(space->keys, job.wish.kind, *job.wish.prompt);
  const auto match = space->index.deepest(names, job.wish.more_than, job.wish.at_most);
  if (!match) return {};
  return {.at = match->at, .reason = MissReason::kNone};
}

Fetched HostTier::on(protocol::FetchState job) {
  static constexpr traces::ZoneSite kSite{"bring state"};
  const traces::Zone zone(kSite);
  TierFigures::add(figures_->fetches);
  Fetched fetched{.tier = protocol::Tier::kHost};
  for (int tries = 0; tries < kHostTries;) {
    const Space* space = find_space(job.kind, job.name_space);
    if (space == nullptr) return fetched;
    const PrefixNames names(space->keys, job.kind, *job.prompt);
    const auto match = space->index.deepest(names, job.more_than, job.at_most);
    if (!match) return fetched;
    if (!settings_.even_if_slower &&
        figures_->would_lose(match->bytes, match->at - job.more_than, job.seconds_per_token)) {
      TierFigures::add(figures_->slower);
      fetched.reason = MissReason::kSlowerThanComputing;
      return fetched;
    }
    std::shared_ptr<void> counted = loading_.take(match->bytes);
    const auto began = std::chrono::steady_clock::now();
    try {
      if (counted) fetched.state = assemble(job, *match, counted);
    } catch (const std::bad_alloc&) {
      counted = nullptr;
    }
    if (!counted) {
      fetched.reason = MissReason::kNoMemory;
      job.at_most = LoadingBytes::shorter(match->at);
      if (job.at_most <= job.more_than) return fetched;
      continue;
    }
    ++tries;
    if (!fetched.state) {
      fetched.reason = MissReason::kCorrupt;
      TierFigures::add(figures_->refused[static_cast<std::size_t>(protocol::snapshots::Refusal::kContents)]);
      if (settings_.log) settings_.log("host tier: a snapshot has a wrong checksum and was dropped");
      drop(match->manifest);
      continue;
    }
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - began;
    TierFigures::add(figures_->loaded);
    TierFigures::add(figures_->loaded_tokens, match->at);
    TierFigures::add(figures_->loaded_bytes, fetched.state->bytes.size());
    TierFigures::add(figures_->load_ns, static_cast<std::uint64_t>(took.count()));
    fetched.reason = MissReason::kNone;
    fetched.origin = match->origin;
    State& state = states_.at(match->manifest);
    by_use_.splice(by_use_.end(), by_use_, state.in_order);
    return fetched;
  }
  return fetched;
}

protocol::SharedHostState HostTier::assemble(const protocol::FetchState& job,
                                             const NamespaceIndex::Match& match,
                                             std::shared_ptr<void> counted) {
  const State& from = states_.at(match.manifest);
  if (!std::equal(from.tokens.begin(), from.tokens.begin() + match.at, job.prompt->begin())) return nullptr;
  const protocol::StateKind& kind = job.kind;
  const std::size_t pages = kind.page_bytes == 0 ? 0 : (match.at + kind.page_tokens - 1) / kind.page_tokens;
  auto state = std::make_shared<protocol::HostState>();
  state->stored = state->logical = match.at;
  state->counted = std::move(counted);
  const auto memory = std::make_shared<gpu::HostBytes>(
      gpu::take_transfer(settings_.buffers.get(), pages * kind.page_bytes + kind.slot_bytes));
  state->bytes = memory->span();
  state->memory = memory;
  std::vector<const SummedBytes*> blocks;
  for (std::size_t i = 0; i < pages; ++i) blocks.push_back(&blocks_.at(from.blocks[i]).contents);
  for (std::size_t i = from.blocks.size() - slot_pieces(kind); i < from.blocks.size(); ++i) {
    blocks.push_back(&blocks_.at(from.blocks[i]).contents);
  }
  if (!copy_compared(blocks, memory->span())) return nullptr;
  return state;
}

// -- keeping

void HostTier::on(StoreState job) {
  if (!waiting_.push(std::move(job))) TierFigures::add(figures_->overtaken);
  publish();
}

Task<void> HostTier::keep_all() {
  for (;;) {
    Task<std::optional<StoreState>> waiting = waiting_.next();
    std::optional<StoreState> job = co_await waiting;
    if (!job) co_return;
    Task<void> keeping = keep(std::move(*job));
    co_await keeping;
    publish();
  }
}

Task<void> HostTier::keep(StoreState job) {
  SnapshotPlan plan = plan_snapshot(master_, job);
  if (const auto there = states_.find(plan.id); there != states_.end()) {
    by_use_.splice(by_use_.end(), by_use_, there->second.in_order);
    co_return;
  }
  const auto look = [&] {
    std::uint64_t missing = 0;
    plan.there.clear();
    for (std::size_t i = 0; i < plan.chunks(); ++i) {
      plan.there.push_back(blocks_.contains(plan.manifest.references[i]));
      if (!plan.there[i]) missing += plan.bytes_of(i);
    }
    return missing;
  };
  if (!make_room(look()) ||
      !make_room(look())) {  // a first eviction may free pages that this snapshot shares
    TierFigures::add(figures_->no_room);
    co_return;
  }
  std::vector<Block> fresh(plan.chunks());
  const TakeChunk take = [&](std::size_t chunk, std::span<const std::byte> contents) {
    try {
      fresh[chunk].contents = SummedBytes(contents);
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  };
  Task<ChunksRead> reading = read_chunks(job, plan, settings_.buffers.get(), take);
  const ChunksRead read = co_await reading;
  if (read != ChunksRead::kAll) {
    TierFigures::add(read == ChunksRead::kGone ? figures_->overtaken : figures_->no_room);
    co_return;
  }
  insert(job, plan, std::move(fresh));
  if (settings_.buffers) {
    std::uint64_t whole = 0;
    for (std::size_t i = 0; i < plan.chunks(); ++i) whole += plan.bytes_of(i);
    settings_.buffers->prepare(std::min(whole, settings_.loading_bytes));
  }
}

void HostTier::insert(const StoreState& job, const SnapshotPlan& plan, std::vector<Block> fresh) {
  const std::vector<RecordId>& references = plan.manifest.references;
  for (std::size_t i = 0; i < references.size(); ++i) {
    if (plan.there[i] && !blocks_.contains(references[i])) return;  // evicted meanwhile
  }
  auto entry = NamespaceIndex::entry_of(plan.keys, job.kind, plan.id, plan.manifest);
  if (!entry) return;
  const Place place{plan.keys.folder, job.kind.arithmetic};
  Space& space =
      spaces_.try_emplace(place, Space{plan.keys, NamespaceIndex(job.kind), job.kind.model, job.name_space})
          .first->second;
  for (std::size_t i = 0; i < references.size(); ++i) {
    const auto [block, added] = blocks_.try_emplace(references[i]);
    if (added) {
      block->second = std::move(fresh[i]);
      bytes_ += block->second.contents.size();
      TierFigures::add(figures_->stored_bytes, block->second.contents.size());
    }
    ++block->second.holders;
  }
  by_use_.push_back(plan.id);
  states_.emplace(plan.id, State{.place = place,
                                 .blocks = references,
                                 .tokens = plan.manifest.tokens,
                                 .in_order = std::prev(by_use_.end())});
  space.index.add(std::move(*entry));
  TierFigures::add(figures_->stored);
}

bool HostTier::make_room(std::uint64_t bytes) {
  if (bytes > settings_.max_bytes) return false;
  while (bytes_ + bytes > settings_.max_bytes && !by_use_.empty()) {
    drop(RecordId(by_use_.front()));
    TierFigures::add(figures_->evicted);
  }
  return true;
}

void HostTier::drop(const RecordId& id) {
  const auto found = states_.find(id);
  if (found == states_.end()) return;
  const State state = std::move(found->second);
  by_use_.erase(state.in_order);
  states_.erase(found);
  for (const RecordId& name : state.blocks) {
    const auto block = blocks_.find(name);
    if (--block->second.holders > 0) continue;
    bytes_ -= block->second.contents.size();
    blocks_.erase(block);
  }
  const auto space = spaces_.find(state.place);
  space->second.index.remove(id);
  if (space->second.index.size() == 0) spaces_.erase(space);
}

void HostTier::on(protocol::ForgetStates job) {
  const auto wrong = std::span<const TokenId>(*job.tokens).first(job.length);
  const NamespaceKeys keys = protocol::snapshots::keys_of(master_, job.kind.model, job.name_space);
  std::vector<RecordId> going;
  for (const auto& [id, state] : states_) {
    if (state.place.first == keys.folder && state.tokens.size() >= job.length &&
        std::equal(wrong.begin(), wrong.end(), state.tokens.begin())) {
      going.push_back(id);
    }
  }
  for (const RecordId& id : going) drop(id);
  publish();
}

void HostTier::on(const protocol::UnloadStates& job) {
  std::vector<RecordId> going;
  for (const auto& [id, state] : states_) {
    const Space& space = spaces_.at(state.place);
    if (space.model == job.model && space.name.starts_with(job.prefix)) going.push_back(id);
  }
  for (const RecordId& id : going) drop(id);
  publish();
}

}  // namespace reprise::actors
