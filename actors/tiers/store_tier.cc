#include "actors/tiers/store_tier.h"

#include <algorithm>

namespace reprise::actors {

using protocol::Fetched;
using protocol::MissReason;
using protocol::snapshots::NamespaceKeys;
using protocol::snapshots::PrefixNames;
using protocol::snapshots::Refusal;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::chrono::seconds kReadDeadline{60};
constexpr std::chrono::milliseconds kLookDeadline{50};  // for changes by other processes
constexpr std::chrono::milliseconds kLookPeriod{500};
constexpr int kTries = 3;
constexpr std::size_t kMaxSpaces = 4096;

}  // namespace

StoreTier::StoreTier(TierSettings settings, std::shared_ptr<TierFigures> figures)
    : settings_(std::move(settings)), figures_(std::move(figures)), loading_(settings_.loading_bytes) {}

void StoreTier::on_start() {
  writer_ = spawn<StoreWriter>(
      {.placement = runtime::Placement::own_thread(), .on_failure = runtime::OnFailure::escalate()},
      settings_, figures_, self(*this));
  reader_ = spawn<StoreReader>(
      {.placement = runtime::Placement::own_thread(), .on_failure = runtime::OnFailure::escalate()},
      settings_, figures_, writer_);
}

// -- index

StoreTier::SharedSpace StoreTier::space_of(const protocol::StateKind& kind, const std::string& name_space) {
  const NamespaceKeys keys = protocol::snapshots::keys_of(settings_.master_key, kind.model, name_space);
  SharedSpace& space = spaces_[{keys.folder, kind.arithmetic}];
  if (!space) space = std::make_shared<Space>(keys, kind, name_space);
  const SharedSpace found = space;
  if (spaces_.size() > kMaxSpaces) {  // evict any other; it is read again when needed
    auto other = spaces_.begin();
    if (other->second == found) ++other;
    spaces_.erase(other);
  }
  return found;
}

// Reads the namespace: completely the first time; later only the changes by others, within kLookDeadline.
Task<void> StoreTier::look(SharedSpace space) {
  if (!space->reading) {
    space->reading = true;
    space->looked = runtime::Clock::now();
    launch(read_news(space));
  }
  const runtime::TimePoint deadline =
      runtime::deadline_after(space->changed < 0 ? std::chrono::milliseconds(kReadDeadline) : kLookDeadline);
  while (space->reading) {
    auto waiting = space->read.wait(deadline);
    const Result<void> woken = co_await waiting;
    if (!woken.ok()) co_return;
  }
}

Task<void> StoreTier::read_news(SharedSpace space) {
  auto asked = reader_.ask(ReadManifests{.keys = space->keys,
                                         .kind = space->kind,
                                         .known = space->index.manifests(),
                                         .since = space->incomplete ? -1 : space->changed},
                           runtime::deadline_after(kReadDeadline));
  Result<ManifestsRead> answered = co_await asked;
  space->reading = false;
  space->incomplete = !answered.ok() || !answered->complete;
  if (answered.ok()) {
    ManifestsRead& news = *answered;
    if (news.changed >= 0) space->changed = news.changed;
    for (NamespaceIndex::Entry& entry : news.added) space->index.add(std::move(entry));
    for (const RecordId& id : news.gone) space->index.remove(id);
    if (!news.sums.empty()) writer_.tell(KnownSums{std::move(news.sums)});
  }
  space->read.signal();
}

void StoreTier::on(StateStored stored) {
  const auto found = spaces_.find({stored.folder, stored.kind.arithmetic});
  if (found == spaces_.end() || found->second->changed < 0) return;
  found->second->index.add(std::move(stored.entry));
}

void StoreTier::on(StatesGone gone) {
  for (const auto& [folder, manifest] : gone.manifests) {
    for (auto place = spaces_.lower_bound({folder, 0});
         place != spaces_.end() && place->first.first == folder; ++place) {
      place->second->index.remove(manifest);
    }
  }
}

// -- states

bool StoreTier::is_slower(const protocol::FetchState& job, const NamespaceIndex::Match& match) const {
  return !settings_.even_if_slower &&
         figures_->would_lose(match.bytes, match.at - job.more_than, job.seconds_per_token);
}

MissReason StoreTier::why_nothing(const protocol::FetchState& job, const Space& space,
                                  const PrefixNames& names) {
  return space.index.elsewhere(names, job.more_than, job.at_most) ? MissReason::kOtherArithmetic
                                                                  : MissReason::kNeverSeen;
}

Task<std::optional<NamespaceIndex::Match>> StoreTier::find(const protocol::FetchState& job, SharedSpace space,
                                                           const PrefixNames& names) {
  std::optional<NamespaceIndex::Match> match = space->index.deepest(names, job.more_than, job.at_most);
  const auto age = runtime::Clock::now() - space->looked;
  if ((!match && (space->changed < 0 || age > kLookPeriod)) || (space->incomplete && age > settings_.retry)) {
    Task<void> looking = look(space);
    co_await looking;
    match = space->index.deepest(names, job.more_than, job.at_most);
  }
  co_return match;
}

Task<protocol::FoundState> StoreTier::on(protocol::FindState job) {
  protocol::FoundState found;
  if (settings_.breaker->is_open()) co_return found;
  const SharedSpace space = space_of(job.wish.kind, job.wish.name_space);
  const PrefixNames names(space->keys, job.wish.kind, *job.wish.prompt);
  Task<std::optional<NamespaceIndex::Match>> finding = find(job.wish, space, names);
  const std::optional<NamespaceIndex::Match> match = co_await finding;
  if (match) {
    found.at = match->at;
    found.reason = MissReason::kNone;
  } else {
    found.reason = why_nothing(job.wish, *space, names);
  }
  co_return found;
}

Task<Fetched> StoreTier::on(protocol::FetchState job) {
  TierFigures::add(figures_->fetches);
  Fetched fetched{.tier = settings_.tier};
  const SharedSpace space = space_of(job.kind, job.name_space);
  const PrefixNames names(space->keys, job.kind, *job.prompt);
  for (int tries = 0; tries < kTries && !settings_.breaker->is_open();) {
    Task<std::optional<NamespaceIndex::Match>> finding = find(job, space, names);
    const std::optional<NamespaceIndex::Match> match = co_await finding;
    if (!match) break;
    if (is_slower(job, *match)) {
      TierFigures::add(figures_->slower);
      fetched.reason = MissReason::kSlowerThanComputing;
      co_return fetched;
    }
    const std::shared_ptr<void> counted = loading_.take(match->bytes);
    if (!counted) {
      fetched.reason = MissReason::kNoMemory;
      job.at_most = LoadingBytes::shorter(match->at);
      if (job.at_most <= job.more_than) break;
      continue;
    }
    auto asked = reader_.ask(ReadState{.keys = space->keys,
                                       .kind = job.kind,
                                       .manifest = match->manifest,
                                       .prompt = job.prompt,
                                       .at = match->at,
                                       .counted = counted},
                             runtime::deadline_after(kReadDeadline));
    const Result<ReadState::Reply> read = co_await asked;
    ++tries;
    if (!read.ok()) break;
    if (read->ok()) {
      fetched.state = **read;
      fetched.reason = MissReason::kNone;
      fetched.origin = match->origin;
      co_return fetched;
    }
    if (read->error().why == Refusal::kIo && settings_.breaker->is_open()) break;
    const Refusal why = read->error().why;
    if (why == Refusal::kIo) space->incomplete = true;
    if (why != Refusal::kMissing && why != Refusal::kIo) {
      fetched.reason = MissReason::kCorrupt;
    } else if (fetched.reason != MissReason::kCorrupt) {
      fetched.reason = MissReason::kLost;
    }
    space->index.remove(match->manifest);
  }
  if (fetched.reason == MissReason::kNeverSeen) fetched.reason = why_nothing(job, *space, names);
  co_return fetched;
}

void StoreTier::on(protocol::StoreState job) {
  writer_.tell(std::move(job));
}

void StoreTier::on(protocol::StoreTurn job) {
  writer_.tell(std::move(job));
}

void StoreTier::on(protocol::NameChange change) {
  writer_.tell(std::move(change));
}

Task<protocol::FetchTurns::Reply> StoreTier::on(protocol::FetchTurns job) {
  protocol::FetchTurns::Reply found;
  if (settings_.breaker->is_open()) co_return found;
  auto asked = reader_.ask(std::move(job), runtime::deadline_after(kReadDeadline));
  Result<protocol::FetchTurns::Reply> read = co_await asked;
  if (read.ok()) found = std::move(*read);
  co_return found;
}

Task<void> StoreTier::on(protocol::ForgetStates job) {
  const SharedSpace space = space_of(job.kind, job.name_space);
  auto asked = reader_.ask(RemoveStates{.keys = space->keys, .tokens = job.tokens, .length = job.length},
                           runtime::deadline_after(kReadDeadline));
  const Result<RemoveStates::Reply> removed = co_await asked;
  if (!removed.ok()) co_return;
  for (const RecordId& manifest : *removed) space->index.remove(manifest);
}

}  // namespace reprise::actors
