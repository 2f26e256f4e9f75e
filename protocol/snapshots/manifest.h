#pragma once
// The manifest of a snapshot: its identity and the records it consists of (docs/formats/snapshot.md).
//
// Contents of its record: a length (4 bytes), JSON of that length, the tokens (4 bytes each), and a digest of
// each reference's contents (8 bytes each). The references are the pages in order, then the tail if the last
// page is partly filled, then the pieces of the slot if the model has one. Unknown or missing JSON members
// are an error.

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/snapshots/record.h"
#include "protocol/snapshots/state_key.h"

namespace reprise::protocol::snapshots {

inline constexpr std::uint32_t kMaxTokens = 1u << 24;
inline constexpr std::uint64_t kMaxManifest = 128ULL << 20;  // bytes of its record

struct Manifest {
  std::string name_space{};
  StateKind kind{};
  std::uint32_t stored = 0;   // KV entries in the pages
  std::uint32_t logical = 0;  // RoPE positions; equals `stored` unless compacted
  std::string origin{};
  std::int64_t created = 0;  // seconds since 1970
  TokenList tokens{};        // size: `stored`
  std::vector<RecordId> references{};
  std::vector<std::uint64_t> sums{};  // digests of the references' contents (base/digest.h)

  std::size_t full_pages() const { return stored / kind.page_tokens; }
  bool has_tail() const { return stored % kind.page_tokens != 0 && kind.page_bytes != 0; }
  /// The part of the state that a reference holds.
  struct Chunk {
    RecordKind kind;
    std::uint64_t first;  // byte offset in the state
    std::uint64_t bytes;
    std::size_t piece = 0;  // index of the slot piece
  };
  Chunk chunk(std::size_t reference) const;
  /// Returns the index of the slot's first reference, or references.size() if there is no slot.
  std::size_t first_of_slot() const { return references.size() - slot_pieces(kind); }
  /// Returns the bytes of the whole state: pages, including the tail's, and slot.
  std::uint64_t state_bytes() const {
    return (stored + kind.page_tokens - 1) / kind.page_tokens * kind.page_bytes + kind.slot_bytes;
  }
};

/// Returns the number of records of a state besides its manifest.
std::size_t reference_count(const StateKind& kind, std::uint32_t stored);

std::vector<std::byte> seal_manifest(const NamespaceKeys& keys, const RecordId& id, const Manifest& manifest);

/// Decrypts and validates a manifest, including that its namespace and model match `folder`.
Outcome<Manifest, Refused> open_manifest(const Key& master, const RecordId& folder, const RecordId& id,
                                         std::span<const std::byte> file);

}  // namespace reprise::protocol::snapshots
