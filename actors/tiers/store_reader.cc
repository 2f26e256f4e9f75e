#include "actors/tiers/store_reader.h"

#include <algorithm>
#include <new>

#include "base/digest.h"
#include "traces/trace.h"

namespace reprise::actors {

using namespace protocol::snapshots;

namespace {

constexpr std::uint64_t kMostManifest = 128ULL << 20;

/// Of no use to anybody: not one that a newer program, or one with another secret, could read.
bool is_hopeless(Refusal why) {
  return why == Refusal::kTruncated || why == Refusal::kMisplaced || why == Refusal::kSize ||
         why == Refusal::kSeal || why == Refusal::kContents || why == Refusal::kMissing;
}

/// Opens it into `to`; nothing: it is what the manifest says.
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

Outcome<Manifest, Refused> StoreReader::read_manifest(const RecordId& folder, const RecordId& id) {
  auto file = store_->read(folder, FileKind::kManifest, id, kMostManifest);
  if (!file.ok()) return file.error();
  return open_manifest(settings_.master_key, folder, id, *file);
}

void StoreReader::note(const Refused& refused, const RecordId& folder, const RecordId& manifest) {
  if (!refused_.insert(manifest).second) return;
  TierFigures::add(figures_->refused[static_cast<std::size_t>(refused.why)]);
  if (settings_.log) {
    settings_.log("a snapshot on " + std::string(name_of(settings_.tier)) + " is not used (" +
                  std::string(name_of(refused.why)) + "): m" + manifest.hex() + ": " + refused.message);
  }
  if (!is_hopeless(refused.why)) return;
  store_->remove(folder, FileKind::kManifest, manifest);
  refused_.erase(manifest);
}

ReadManifests::Reply StoreReader::on(ReadManifests job) {
  static constexpr traces::ZoneSite kSite{"read manifests"};
  const traces::Zone zone(kSite);
  const RecordId& folder = job.keys.folder;
  ReadManifests::Reply read;
  read.changed = store_->changed(folder).value_or(job.since);
  if (read.changed == job.since) return read;
  const std::optional<std::vector<RecordId>> all = store_->manifests(folder);
  if (!all) {
    read.changed = job.since;
    return read;
  }
  std::set<RecordId> gone(job.known.begin(), job.known.end());
  for (const RecordId& id : *all) {
    if (gone.erase(id) > 0 || refused_.contains(id)) continue;
    const auto manifest = read_manifest(folder, id);
    if (!manifest.ok()) {
      if (settings_.breaker->is_open()) {  // the rest is looked at when it is there again
        read.changed = job.since;
        return read;
      }
      if (manifest.error().why != Refusal::kMissing) note(manifest.error(), folder, id);
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
    std::size_t reference;  // of the manifest's
    std::span<std::byte> to;
    std::optional<Refused> refused{};
    bool is_wrong = false;  // and not just missing
  };
  std::vector<Chunk> chunks;
  // The largest first: the others are read beside them.
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
  // Called by several threads, each of which has another chunk.
  const auto open = [&](std::size_t which, const Outcome<std::span<const std::byte>, Refused>& record) {
    Chunk& chunk = chunks[which];
    chunk.refused = record.ok() ? unlike(chunk.kind, wanted[which].id, *record, chunk.to, job.keys,
                                         manifest->sums[chunk.reference])
                                : std::optional<Refused>(record.error());
    chunk.is_wrong = record.ok() && chunk.refused && chunk.refused->why != Refusal::kIo;
    return !chunk.refused;
  };
  store_->read_each(folder, FileKind::kChunk, wanted, open);
  for (const Chunk& chunk : chunks) {  // whoever needs them writes them anew
    if (chunk.is_wrong) store_->remove(folder, FileKind::kChunk, manifest->references[chunk.reference]);
  }
  for (const Chunk& chunk : chunks) {
    if (chunk.refused) return *chunk.refused;
  }
  return protocol::SharedHostState(std::move(state));
}

RemoveStates::Reply StoreReader::on(RemoveStates job) {
  RemoveStates::Reply removed;
  const auto wrong = std::span<const TokenId>(*job.tokens).first(job.length);
  for (const RecordId& id : store_->manifests(job.keys.folder).value_or(std::vector<RecordId>{})) {
    const auto manifest = read_manifest(job.keys.folder, id);
    if (!manifest.ok() || manifest->stored < job.length ||
        !std::equal(wrong.begin(), wrong.end(), manifest->tokens.begin())) {
      continue;
    }
    store_->remove(job.keys.folder, FileKind::kManifest, id);
    for (const RecordId& chunk : manifest->references)
      store_->remove(job.keys.folder, FileKind::kChunk, chunk);
    removed.push_back(id);
  }
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
      store_->remove(keys.folder, FileKind::kTurn, id);
      continue;
    }
    store_->touch(keys.folder, FileKind::kTurn, id, std::chrono::seconds(0));
    found.push_back(std::make_shared<const protocol::SampledTurn>(std::move(*turn)));
  }
  return found;
}

}  // namespace reprise::actors
