#pragma once
// StateKind, the identity of a state, and PrefixNames, the names of the records that store it.
//
// A page's name is derived from all tokens up to its end, so snapshots with a common prefix share its pages.
// The names of manifest, tail and slot are derived from all tokens up to their position. Every name includes
// the arithmetic's id, so engines with different bits never use each other's records.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/token.h"
#include "protocol/snapshots/seal.h"

namespace reprise::protocol::snapshots {

/// Determines the bits and the size of a state, together with its tokens.
struct StateKind {
  std::uint64_t model = 0;       // digest of weights, layers, layout and settings
  std::uint64_t arithmetic = 0;  // digest of build and device
  std::uint64_t page_bytes = 0;  // bytes of a page of page_tokens tokens
  std::uint64_t slot_bytes = 0;
  std::uint32_t page_tokens = 0;
  std::uint32_t grid = 1;
  bool any_token = false;  // no slot: the state can be truncated to any grid position

  bool operator==(const StateKind&) const = default;
};

/// Bytes of a slot piece, except the last. Pieces are written, read and decrypted in parallel. With its
/// header a piece fits in 4 MiB, a store's largest value.
inline constexpr std::uint64_t kSlotPiece = (4u << 20) - 4096;

inline std::size_t slot_pieces(const StateKind& kind) {
  return static_cast<std::size_t>((kind.slot_bytes + kSlotPiece - 1) / kSlotPiece);
}

RecordId turn_record(const NamespaceKeys& keys, std::string_view turn);
inline constexpr std::size_t kMaxTurnRecord = 16u << 20;

class PrefixNames {
 public:
  /// Derives the names for all prefixes of `tokens`, which must outlive it. Requires: kind.page_tokens > 0.
  PrefixNames(const NamespaceKeys& keys, const StateKind& kind, std::span<const TokenId> tokens);

  /// Returns the name of the full page with tokens [index, index + 1) * page_tokens. Requires: index <
  /// pages().
  RecordId page(std::size_t index) const { return id_of(chain_[index + 1]); }
  /// Returns the number of full pages.
  std::size_t pages() const { return chain_.size() - 1; }
  RecordId manifest(std::uint32_t length) const { return at(length, "manifest"); }
  RecordId tail(std::uint32_t length) const { return at(length, "tail"); }
  RecordId slot(std::uint32_t length, std::size_t piece) const {
    return at(length, "slot" + std::to_string(piece));
  }

 private:
  RecordId at(std::uint32_t length, std::string_view what) const;

  const Key names_;
  const std::uint32_t page_tokens_;
  const std::span<const TokenId> tokens_;
  std::vector<Key> chain_;  // digests before the first page and after each page
};

}  // namespace reprise::protocol::snapshots
