#pragma once
// PieceCache: encodings of recent short pieces, shared by all threads.
//
// A direct-mapped table: pieces with the same slot replace each other. A slot is guarded by a version number
// (seqlock): odd while a writer fills it, different afterwards. A reader that finds the version odd or
// changed reports a miss; a writer that finds it odd skips the slot. No thread ever waits.
//
// Threading: any thread, at any time. Every word is atomic. A reader loads piece and ids with acquire and a
// writer stores them with release, so a reader that saw one word of a later writer also sees that writer's
// version when it checks again.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "models/text/tokenizer_spec.h"

namespace reprise::models {

class PieceCache {
 public:
  static constexpr std::size_t kMaxPieceLength = 24;  // bytes
  static constexpr std::size_t kMaxTokens = 6;

  /// `slots` is a power of two; a slot takes 64 bytes.
  explicit PieceCache(std::size_t slots);

  /// Appends the ids of `piece` to `out`; returns false if they are not cached. Requires: hash ==
  /// hash_of(piece).
  bool find(std::string_view piece, std::uint64_t hash, std::vector<TokenId>& out) const;

  /// Stores the ids of `piece` if both fit in a slot.
  void put(std::string_view piece, std::uint64_t hash, std::span<const TokenId> ids);

 private:
  static constexpr std::size_t kWords = 8;  // version | lengths | 3 words of piece | 3 words of ids
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> words[kWords] = {};
  };

  std::size_t mask_;
  std::unique_ptr<Slot[]> slots_;
};

}  // namespace reprise::models
