#pragma once
// NamespaceIndex: which places of prompts a tier has states of, in one namespace of one model, without their tokens.
//
// A place is found by its name (protocol/snapshots/state_key.h), which is made of the tokens and a key: a prompt is
// looked up by the names of those of its places whose length occurs here. Where states can be cut (no slot), the names
// of their pages serve as places too.
//
// Threading: one owner.

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
    std::uint64_t bytes = 0;         // of the state
    std::vector<RecordId> pages{};   // where states can be cut
    std::optional<RecordId> twin{};  // of another arithmetic: the name that it would have here
  };
  struct Match {
    RecordId manifest{};
    std::uint32_t at = 0;  // tokens: its length, or less where it can be cut
    protocol::Origin origin = protocol::Origin::kSpaced;
    std::uint64_t bytes = 0;  // of the state up to there
  };

  /// `kind`: of the states that are looked for here.
  explicit NamespaceIndex(const protocol::snapshots::StateKind& kind) : kind_(kind) {}

  /// What the index needs of a manifest; nothing if its origin is none.
  static std::optional<Entry> entry_of(const protocol::snapshots::NamespaceKeys& keys,
                                       const protocol::snapshots::StateKind& kind, const RecordId& id,
                                       const protocol::snapshots::Manifest& manifest);

  void add(Entry entry);
  void remove(const RecordId& manifest);
  bool contains(const RecordId& manifest) const { return entries_.contains(manifest); }
  std::vector<RecordId> manifests() const;
  std::size_t size() const { return entries_.size(); }

  /// The deepest beginning of the tokens that `names` are of, with more than `more_than` and at most `at_most` of them.
  std::optional<Match> deepest(const protocol::snapshots::PrefixNames& names, std::uint32_t more_than,
                               std::uint32_t at_most) const;
  /// Whether there is one of another arithmetic.
  bool elsewhere(const protocol::snapshots::PrefixNames& names, std::uint32_t more_than,
                 std::uint32_t at_most) const;

 private:
  struct Page {
    RecordId manifest{};  // one that has it
    std::uint32_t holders = 0;
  };

  const protocol::snapshots::StateKind kind_;
  std::unordered_map<RecordId, Entry, protocol::snapshots::RecordIdHash> entries_;
  std::map<std::uint32_t, std::uint32_t> lengths_;  // of states that fit -> how many
  std::map<std::uint32_t, std::uint32_t> twin_lengths_;
  std::unordered_map<RecordId, std::uint32_t, protocol::snapshots::RecordIdHash> twins_;  // name -> how many
  std::unordered_map<RecordId, Page, protocol::snapshots::RecordIdHash> pages_;
};

}  // namespace reprise::actors
