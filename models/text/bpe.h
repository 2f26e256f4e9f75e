#pragma once
// Byte-pair encoding: a piece is taken apart into symbols (bytes or characters), then the neighbouring pair
// with the lowest rank is merged, the leftmost of equals, until no pair has a rank.
//
// Short pieces are merged by looking through all pairs each time, long ones with a queue, so that a piece of
// n symbols takes O(n log n). Both give the same tokens. Encodings of short pieces are kept in a PieceCache.
//
// A symbol that has no token becomes byte-fallback tokens, else the unknown token, else nothing.
//
// Threading: encode() may be called from many threads at once, each with a Scratch of its own.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/text/encode_work.h"
#include "models/text/merge_queue.h"
#include "models/text/merge_table.h"
#include "models/text/string_table.h"
#include "models/text/tokenizer_spec.h"

namespace reprise::models {

class Bpe {
 public:
  /// `tokens` are the model's own, by id; it must outlive this. LoadError, naming spec.source, for merges of
  /// tokens that are not there.
  Bpe(const TokenizerSpec& spec, const StringTable& tokens);

  /// Buffers that are reused from piece to piece.
  struct Scratch {
    std::vector<TokenId> symbols;
    std::vector<std::uint32_t> ranks, previous, next;
    MergeQueue queue;
  };

  /// Appends the tokens of `piece`: any bytes for a byte-level model, valid UTF-8 for others.
  void encode(std::string_view piece, Scratch& scratch, EncodeWork& work, std::vector<TokenId>& out) const;

  /// Whether every byte has a token, so that no text is lost.
  bool covers_all_bytes() const { return covers_all_bytes_; }

 private:
  static constexpr std::size_t kShort = 40;  // symbols; longer pieces use the queue

  void add_symbols(std::string_view piece, Scratch& scratch) const;
  void add_fallback(std::string_view character, Scratch& scratch) const;
  void merge_short(Scratch& scratch, EncodeWork& work) const;
  void merge_long(Scratch& scratch, EncodeWork& work) const;

  const StringTable& tokens_;
  StringTable whole_;  // byte-level with ignore_merges: the bytes of each token
  MergeTable merges_;
  std::array<TokenId, 256> byte_tokens_;    // of a byte, or -1: byte-level
  std::array<TokenId, 256> byte_fallback_;  // "<0x..>", or -1
  std::optional<TokenId> unk_;
  std::vector<TokenId> merged_;  // by rank: what the merge gives
  bool byte_level_;
  bool ignore_merges_;
  bool fuse_unk_;
  bool covers_all_bytes_;
};

}  // namespace reprise::models
