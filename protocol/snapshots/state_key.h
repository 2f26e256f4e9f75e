#pragma once
// What a state is of, and the names of the records that hold it.
//
// A page's name comes from all tokens up to its end: snapshots with a common beginning have its pages in common. The
// names of what stands at one place alone (manifest, tail, slot) come from all tokens up to that place. The id of the
// arithmetic is part of every name, so that engines with other bits never take each other's pages.
//
// Threading: plain values and pure functions.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/token.h"
#include "protocol/snapshots/seal.h"

namespace reprise::protocol::snapshots {

/// What decides the bits of a state and how many there are, beside its tokens.
struct StateKind {
  std::uint64_t model = 0;       // of weights, layers, layout and settings
  std::uint64_t arithmetic = 0;  // of the build and the device
  std::uint64_t page_bytes = 0;  // of page_tokens tokens
  std::uint64_t slot_bytes = 0;
  std::uint32_t page_tokens = 0;
  std::uint32_t grid = 1;
  bool any_token = false;  // without a slot: it can be cut

  bool operator==(const StateKind&) const = default;
};

/// A slot is stored in pieces of so many bytes, the last one shorter: they are written, read and opened beside each other. With the
/// record's head one is within 4 MiB, a store's largest value.
inline constexpr std::uint64_t kSlotPiece = (4u << 20) - 4096;

inline std::size_t slot_pieces(const StateKind& kind) {
  return static_cast<std::size_t>((kind.slot_bytes + kSlotPiece - 1) / kSlotPiece);
}

/// The name of the record of a turn (protocol/sampled_turns.h).
RecordId turn_record(const NamespaceKeys& keys, std::string_view turn);
inline constexpr std::size_t kMaxTurnRecord = 16u << 20;

class PrefixNames {
 public:
  /// Of all beginnings of `tokens`, which must outlive it. `kind` has page_tokens above 0.
  PrefixNames(const NamespaceKeys& keys, const StateKind& kind, std::span<const TokenId> tokens);

  /// Of the tokens [index, index + 1) * page_tokens, which are all there.
  RecordId page(std::size_t index) const { return id_of(chain_[index + 1]); }
  /// Full pages.
  std::size_t pages() const { return chain_.size() - 1; }
  RecordId manifest(std::uint32_t length) const { return at(length, "manifest"); }
  RecordId tail(std::uint32_t length) const { return at(length, "tail"); }
  /// Of the piece of that number.
  RecordId slot(std::uint32_t length, std::size_t piece) const {
    return at(length, "slot" + std::to_string(piece));
  }

 private:
  RecordId at(std::uint32_t length, std::string_view what) const;

  const Key names_;
  const std::uint32_t page_tokens_;
  const std::span<const TokenId> tokens_;
  std::vector<Key> chain_;  // before the first page, and behind each
};

}  // namespace reprise::protocol::snapshots
