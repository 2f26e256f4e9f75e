#pragma once
// The manifest of a snapshot: what it is of, and what it consists of (docs/formats/snapshot.md).
//
// The contents of its record: a length (4 bytes), that much JSON, the tokens (4 bytes each), a digest of each
// reference's contents (8 bytes each). The references are its pages in order, then the tail if the last page is not
// full, then the pieces of the slot if the model has one. JSON members that are not known, or missing, refuse it.
//
// Threading: pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/snapshots/record.h"
#include "protocol/snapshots/state_key.h"

namespace reprise::protocol::snapshots {

inline constexpr std::uint32_t kMostTokens = 1u << 24;

struct Manifest {
  std::string name_space{};
  StateKind kind{};
  std::uint32_t stored = 0;   // tokens in pages
  std::uint32_t logical = 0;  // positions
  std::string origin{};
  std::int64_t created = 0;  // seconds since 1970
  TokenList tokens{};        // `stored` of them
  std::vector<RecordId> references{};
  std::vector<std::uint64_t> sums{};  // of the references' contents (base/digest.h)

  std::size_t full_pages() const { return stored / kind.page_tokens; }
  bool has_tail() const { return stored % kind.page_tokens != 0 && kind.page_bytes != 0; }
  /// Which part of the state a reference is: what kind of record, and where its contents stand.
  struct Chunk {
    RecordKind kind;
    std::uint64_t first;  // byte of the state
    std::uint64_t bytes;
    std::size_t piece = 0;  // of the slot
  };
  Chunk chunk(std::size_t reference) const;
  /// The first piece of the slot, or as many as there are where it has none.
  std::size_t first_of_slot() const { return references.size() - slot_pieces(kind); }
  /// Of the whole state: pages, the tail's among them, and slot.
  std::uint64_t state_bytes() const {
    return (stored + kind.page_tokens - 1) / kind.page_tokens * kind.page_bytes + kind.slot_bytes;
  }
};

/// How many records a state of that many tokens has beside its manifest.
std::size_t reference_count(const StateKind& kind, std::uint32_t stored);

std::vector<std::byte> seal_manifest(const NamespaceKeys& keys, const RecordId& id, const Manifest& manifest);

/// Also proves that it belongs where it was found: its namespace and model give this folder.
Outcome<Manifest, Refused> open_manifest(const Key& master, const RecordId& folder, const RecordId& id,
                                         std::span<const std::byte> file);

}  // namespace reprise::protocol::snapshots
