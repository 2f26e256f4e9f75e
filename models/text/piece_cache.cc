#include "models/text/piece_cache.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace reprise::models {
namespace {

using Contents = std::array<std::uint64_t, 7>;  // a slot without its version

Contents pack_piece(std::string_view piece) {
  Contents contents{};
  contents[0] = piece.size();
  std::memcpy(&contents[1], piece.data(), piece.size());
  return contents;
}

}  // namespace

PieceCache::PieceCache(std::size_t slots) : mask_(slots - 1), slots_(std::make_unique<Slot[]>(slots)) {
  REPRISE_CHECK(std::has_single_bit(slots), "the number of slots is not a power of two");
}

bool PieceCache::find(std::string_view piece, std::uint64_t hash, std::vector<TokenId>& out) const {
  if (piece.size() > kMaxPieceLength) return false;
  const Slot& slot = slots_[hash & mask_];
  const std::uint64_t version = slot.words[0].load(std::memory_order_acquire);
  if (version % 2 != 0) return false;
  Contents contents;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    contents[i] = slot.words[i + 1].load(std::memory_order_acquire);
  }
  // Relaxed suffices: the acquire loads above cannot be reordered after this one.
  if (slot.words[0].load(std::memory_order_relaxed) != version) return false;

  const Contents wanted = pack_piece(piece);
  const std::size_t count = contents[0] >> 32;
  const bool is_same = (contents[0] & 0xFFFFFFFF) == wanted[0] && contents[1] == wanted[1] &&
                       contents[2] == wanted[2] && contents[3] == wanted[3];
  if (!is_same || count == 0) return false;
  TokenId ids[kMaxTokens];
  std::memcpy(ids, &contents[4], sizeof ids);
  out.insert(out.end(), ids, ids + count);
  return true;
}

void PieceCache::put(std::string_view piece, std::uint64_t hash, std::span<const TokenId> ids) {
  if (piece.size() > kMaxPieceLength || ids.empty() || ids.size() > kMaxTokens) return;
  Contents contents = pack_piece(piece);
  contents[0] |= std::uint64_t{ids.size()} << 32;
  std::memcpy(&contents[4], ids.data(), ids.size_bytes());

  Slot& slot = slots_[hash & mask_];
  std::uint64_t version = slot.words[0].load(std::memory_order_relaxed);
  if (version % 2 != 0) return;
  // Acquire: the stores below cannot be reordered before the claim. Two writers cannot both win it.
  if (!slot.words[0].compare_exchange_strong(version, version + 1, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
    return;
  }
  for (std::size_t i = 0; i < contents.size(); ++i) {
    slot.words[i + 1].store(contents[i], std::memory_order_release);
  }
  slot.words[0].store(version + 2, std::memory_order_release);
}

}  // namespace reprise::models
