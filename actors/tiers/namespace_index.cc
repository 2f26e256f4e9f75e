#include "actors/tiers/namespace_index.h"

#include <algorithm>
#include <utility>

namespace reprise::actors {

using protocol::snapshots::Manifest;
using protocol::snapshots::NamespaceKeys;
using protocol::snapshots::PrefixNames;
using protocol::snapshots::StateKind;

namespace {

void count_down(std::map<std::uint32_t, std::uint32_t>& counts, std::uint32_t key) {
  const auto found = counts.find(key);
  if (found != counts.end() && --found->second == 0) counts.erase(found);
}

}  // namespace

std::optional<NamespaceIndex::Entry> NamespaceIndex::entry_of(const NamespaceKeys& keys,
                                                              const StateKind& kind, const RecordId& id,
                                                              const Manifest& manifest) {
  const std::optional<protocol::Origin> origin = protocol::origin_named(manifest.origin);
  if (!origin) return std::nullopt;
  Entry entry{.manifest = id, .length = manifest.stored, .origin = *origin, .bytes = manifest.state_bytes()};
  if (!(manifest.kind == kind)) {
    entry.twin = PrefixNames(keys, kind, manifest.tokens).manifest(manifest.stored);
  } else if (kind.any_token && kind.page_bytes != 0) {
    entry.pages.assign(manifest.references.begin(),
                       manifest.references.begin() + static_cast<std::ptrdiff_t>(manifest.full_pages()));
  }
  return entry;
}

void NamespaceIndex::add(Entry entry) {
  if (entries_.contains(entry.manifest)) return;
  if (entry.twin) {
    ++twin_lengths_[entry.length];
    ++twins_[*entry.twin];
  } else {
    ++lengths_[entry.length];
    for (const RecordId& page : entry.pages) {
      Page& shared = pages_[page];
      shared.manifest = entry.manifest;
      ++shared.holders;
    }
  }
  entries_.emplace(entry.manifest, std::move(entry));
}

void NamespaceIndex::remove(const RecordId& manifest) {
  const auto found = entries_.find(manifest);
  if (found == entries_.end()) return;
  const Entry entry = std::move(found->second);
  entries_.erase(found);
  if (entry.twin) {
    count_down(twin_lengths_, entry.length);
    const auto twins = twins_.find(*entry.twin);
    if (--twins->second == 0) twins_.erase(twins);
    return;
  }
  count_down(lengths_, entry.length);
  for (const RecordId& page : entry.pages) {
    const auto known = pages_.find(page);
    if (--known->second.holders == 0) {
      pages_.erase(known);
    } else if (known->second.manifest == manifest) {  // find another holder of the page
      for (const auto& [id, other] : entries_) {
        if (std::find(other.pages.begin(), other.pages.end(), page) != other.pages.end()) {
          known->second.manifest = id;
          break;
        }
      }
    }
  }
}

std::vector<NamespaceIndex::RecordId> NamespaceIndex::manifests() const {
  std::vector<RecordId> all;
  for (const auto& [id, entry] : entries_) all.push_back(id);
  return all;
}

std::optional<NamespaceIndex::Match> NamespaceIndex::deepest(const PrefixNames& names,
                                                             std::uint32_t more_than,
                                                             std::uint32_t at_most) const {
  std::optional<Match> best;
  for (auto length = lengths_.upper_bound(at_most); length != lengths_.begin();) {
    --length;
    if (length->first <= more_than) break;
    const auto found = entries_.find(names.manifest(length->first));
    if (found == entries_.end() || found->second.twin) continue;
    const Entry& entry = found->second;
    best = Match{entry.manifest, entry.length, entry.origin, entry.bytes};
    break;
  }
  if (pages_.empty()) return best;
  const std::size_t most = std::min<std::size_t>(names.pages(), at_most / kind_.page_tokens);
  for (std::size_t pages = most; pages > 0; --pages) {
    const auto at = static_cast<std::uint32_t>(pages * kind_.page_tokens);
    if (at <= more_than || (best && at <= best->at)) break;
    const auto found = pages_.find(names.page(pages - 1));
    if (found == pages_.end()) continue;
    const Entry& entry = entries_.at(found->second.manifest);
    return Match{entry.manifest, at, entry.origin, pages * kind_.page_bytes};
  }
  return best;
}

bool NamespaceIndex::elsewhere(const PrefixNames& names, std::uint32_t more_than,
                               std::uint32_t at_most) const {
  for (auto length = twin_lengths_.upper_bound(at_most); length != twin_lengths_.begin();) {
    --length;
    if (length->first <= more_than) break;
    if (twins_.contains(names.manifest(length->first))) return true;
  }
  return false;
}

}  // namespace reprise::actors
