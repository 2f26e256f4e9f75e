#include "models/text/bpe.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/utf8.h"
#include "models/files/load_error.h"
#include "models/text/byte_alphabet.h"

namespace reprise::models {
namespace {

constexpr std::uint32_t kEnd = MergeTable::kNever;  // no neighbour

MergeTable build_merges(const TokenizerSpec& spec, const StringTable& tokens) {
  MergeTable merges(spec.merges.size());
  std::string joined;
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto& [left, right] = spec.merges[rank];
    joined = left + right;
    const TokenId left_id = tokens.find(left);
    const TokenId right_id = tokens.find(right);
    const TokenId token = tokens.find(joined);
    if (left_id < 0 || right_id < 0 || token < 0) {
      if (spec.lenient_merges) continue;
      const std::string& missing = left_id < 0 ? left : right_id < 0 ? right : joined;
      throw LoadError(spec.source, "merges[" + std::to_string(rank) + "]", "no token '" + missing + "'");
    }
    merges.add(left_id, right_id, {static_cast<std::uint32_t>(rank), token});
  }
  return merges;
}

StringTable bytes_of_tokens(const StringTable& tokens) {
  std::vector<std::string> bytes(tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (auto decoded = from_letters(tokens[id])) bytes[id] = std::move(*decoded);
  }
  return StringTable(bytes);
}

std::string fallback_text(unsigned byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">";
}

}  // namespace

MergeTable::MergeTable(std::size_t merges) : mask_(std::bit_ceil(merges * 2 + 2) - 1), slots_(mask_ + 1) {}

void MergeTable::add(TokenId left, TokenId right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t slot = slot_of(key);
  while (slots_[slot].key != kFree && slots_[slot].key != key) slot = (slot + 1) & mask_;
  slots_[slot] = {key, merge};
}

Bpe::Bpe(const TokenizerSpec& spec, const StringTable& tokens)
    : tokens_(tokens),
      merges_(build_merges(spec, tokens)),
      unk_(spec.unk),
      merged_(spec.merges.size()),
      byte_level_(spec.byte_level),
      ignore_merges_(spec.ignore_merges),
      fuse_unk_(spec.fuse_unk) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    byte_tokens_[byte] = byte_level_ ? tokens.find(to_letters({&raw, 1})) : StringTable::kNone;
    byte_fallback_[byte] = spec.byte_fallback ? tokens.find(fallback_text(byte)) : StringTable::kNone;
  }
  const auto& covering = byte_level_ ? byte_tokens_ : byte_fallback_;
  covers_all_bytes_ = std::all_of(covering.begin(), covering.end(), [](TokenId id) { return id >= 0; });
  for (std::size_t rank = 0; rank < merged_.size(); ++rank) {
    merged_[rank] = tokens.find(spec.merges[rank].first + spec.merges[rank].second);
  }
  if (byte_level_ && ignore_merges_) whole_ = bytes_of_tokens(tokens);
}

void Bpe::encode(std::string_view piece, Scratch& scratch, EncodeWork& work,
                 std::vector<TokenId>& out) const {
  if (piece.empty()) return;
  ++work.pieces;
  if (ignore_merges_) {
    const TokenId id = (byte_level_ ? whole_ : tokens_).find(piece);
    if (id >= 0) return out.push_back(id);
  }
  scratch.symbols.clear();
  add_symbols(piece, scratch);
  if (scratch.symbols.size() <= kShort) {
    merge_short(scratch, work);
  } else {
    merge_long(scratch, work);
  }
  out.insert(out.end(), scratch.symbols.begin(), scratch.symbols.end());
}

void Bpe::add_symbols(std::string_view piece, Scratch& scratch) const {
  scratch.symbols.reserve(piece.size());
  if (byte_level_) {
    for (std::size_t at = 0; at < piece.size(); ++at) {
      const TokenId id = byte_tokens_[static_cast<unsigned char>(piece[at])];
      if (id >= 0) {
        scratch.symbols.push_back(id);
      } else {
        add_fallback(piece.substr(at, 1), scratch);
      }
    }
    return;
  }
  for (std::size_t at = 0; at < piece.size();) {
    const std::string_view character = piece.substr(at, read_utf8(piece, at).length);
    const TokenId id = tokens_.find(character);
    if (id >= 0) {
      scratch.symbols.push_back(id);
    } else {
      add_fallback(character, scratch);
    }
    at += character.size();
  }
}

void Bpe::add_fallback(std::string_view character, Scratch& scratch) const {
  const auto fallback = [&](char byte) { return byte_fallback_[static_cast<unsigned char>(byte)]; };
  if (std::all_of(character.begin(), character.end(), [&](char byte) { return fallback(byte) >= 0; })) {
    for (const char byte : character) scratch.symbols.push_back(fallback(byte));
    return;
  }
  if (!unk_) return;
  if (fuse_unk_ && !scratch.symbols.empty() && scratch.symbols.back() == *unk_) return;
  scratch.symbols.push_back(*unk_);
}

void Bpe::merge_short(Scratch& scratch, EncodeWork& work) const {
  std::vector<TokenId>& symbols = scratch.symbols;
  if (symbols.size() < 2) return;
  TokenId* ids = symbols.data();
  std::size_t pairs = symbols.size() - 1;
  MergeTable::Merge merge[kShort];  // of the pair that begins at each symbol
  for (std::size_t i = 0; i < pairs; ++i) merge[i] = merges_.find(ids[i], ids[i + 1]);
  work.lookups += pairs;

  while (pairs > 0) {
    work.moves += pairs;
    std::size_t best = 0;
    for (std::size_t i = 1; i < pairs; ++i) {
      if (merge[i].rank < merge[best].rank) best = i;
    }
    if (merge[best].rank == MergeTable::kNever) break;
    ids[best] = merge[best].token;
    std::copy(ids + best + 2, ids + pairs + 1, ids + best + 1);
    std::copy(merge + best + 1, merge + pairs, merge + best);
    --pairs;
    work.lookups += 2;
    if (best > 0) merge[best - 1] = merges_.find(ids[best - 1], ids[best]);
    if (best < pairs) merge[best] = merges_.find(ids[best], ids[best + 1]);
  }
  symbols.resize(pairs + 1);
}

void Bpe::merge_long(Scratch& scratch, EncodeWork& work) const {
  std::vector<TokenId>& symbols = scratch.symbols;
  const auto count = static_cast<std::uint32_t>(symbols.size());
  scratch.ranks.assign(count, MergeTable::kNever);  // of the pair that begins at each symbol
  scratch.previous.resize(count);
  scratch.next.resize(count);
  MergeQueue& queue = scratch.queue;  // may hold pairs that are no more
  queue.reset(merged_.size());

  const auto look = [&](std::uint32_t at) {
    ++work.lookups;
    const std::uint32_t right = scratch.next[at];
    const std::uint32_t rank =
        right == kEnd ? MergeTable::kNever : merges_.find(symbols[at], symbols[right]).rank;
    scratch.ranks[at] = rank;
    if (rank != MergeTable::kNever) queue.push(rank, at);
  };

  for (std::uint32_t at = 0; at < count; ++at) {
    scratch.previous[at] = at == 0 ? kEnd : at - 1;
    scratch.next[at] = at + 1 < count ? at + 1 : kEnd;
  }
  for (std::uint32_t at = 0; at < count; ++at) look(at);
  for (MergeQueue::Entry top; queue.pop(top);) {
    ++work.moves;
    const std::uint32_t at = top.place;
    if (scratch.ranks[at] != top.rank) continue;  // a neighbour was merged in the meantime

    const std::uint32_t right = scratch.next[at];
    symbols[at] = merged_[top.rank];
    scratch.ranks[right] = MergeTable::kNever;
    scratch.next[at] = scratch.next[right];
    if (scratch.next[at] != kEnd) scratch.previous[scratch.next[at]] = at;
    if (scratch.previous[at] != kEnd) look(scratch.previous[at]);
    look(at);
  }
  std::size_t kept = 0;
  for (std::uint32_t at = 0; at != kEnd; at = scratch.next[at]) symbols[kept++] = symbols[at];
  symbols.resize(kept);
}

}  // namespace reprise::models
