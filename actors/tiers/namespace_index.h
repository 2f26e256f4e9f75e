#pragma once
// NamespaceIndex records for which prefixes a tier has states, in one namespace of one model, without storing
// tokens.
//
// A prefix is found by its name (protocol/snapshots/state_key.h), a keyed digest of its tokens: a lookup
// tries the names of the prompt's prefixes whose lengths occur in the index. If states can be cut (models
// without slot), each of their pages has a name as well.

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "protocol/cache_report.h"
#include "protocol/snapshots/manifest.h"

namespace reprise::actors {

class NamespaceIndex {
 public:
  using RecordId = protocol::snapshots::RecordId;

  struct Entry {
    RecordId manifest{};
    std::uint32_t length = 0;
    protocol::Origin origin = protocol::Origin::kSpaced;
    std::uint64_t bytes = 0;
    std::vector<RecordId> pages{};   // names of its pages, if states can be cut
    std::optional<RecordId> twin{};  // if of another arithmetic: its name in this one
  };
  struct Match {
    RecordId manifest{};
    std::uint32_t at = 0;  // tokens: the whole state, or less if it can be cut
    protocol::Origin origin = protocol::Origin::kSpaced;
    std::uint64_t bytes = 0;  // bytes up to `at`
  };

  /// `kind` is the kind of states that lookups want.
  explicit NamespaceIndex(const protocol::snapshots::StateKind& kind) : kind_(kind) {}

  /// Returns the index entry of a manifest; nullopt if its origin is invalid.
  static std::optional<Entry> entry_of(const protocol::snapshots::NamespaceKeys& keys,
                                       const protocol::snapshots::StateKind& kind, const RecordId& id,
                                       const protocol::snapshots::Manifest& manifest);

  void add(Entry entry);
  void remove(const RecordId& manifest);
  bool contains(const RecordId& manifest) const { return entries_.contains(manifest); }
  std::vector<RecordId> manifests() const;
  std::size_t size() const { return entries_.size(); }

  /// Returns the longest prefix with more than `more_than` and at most `at_most` tokens; nullopt if there is
  /// none.
  std::optional<Match> deepest(const protocol::snapshots::PrefixNames& names, std::uint32_t more_than,
                               std::uint32_t at_most) const;
  /// Returns true if such a prefix exists for another arithmetic.
  bool elsewhere(const protocol::snapshots::PrefixNames& names, std::uint32_t more_than,
                 std::uint32_t at_most) const;

 private:
  struct Page {
    RecordId manifest{};  // any manifest that contains the page
    std::uint32_t holders = 0;
  };

  const protocol::snapshots::StateKind kind_;
  std::unordered_map<RecordId, Entry, protocol::snapshots::RecordIdHash> entries_;
  std::map<std::uint32_t, std::uint32_t> lengths_;  // length of usable states -> count
  std::map<std::uint32_t, std::uint32_t> twin_lengths_;
  std::unordered_map<RecordId, std::uint32_t, protocol::snapshots::RecordIdHash> twins_;  // name -> count
  std::unordered_map<RecordId, Page, protocol::snapshots::RecordIdHash> pages_;
};

}  // namespace reprise::actors
