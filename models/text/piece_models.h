#pragma once
// Piece models: how a piece of text becomes tokens. Bpe and Spm merge neighbours, by rank and by score; Unigram,
// WordPiece and LongestMatch look for the longest or likeliest tokens of the vocabulary.
//
// Each is built from a TokenizerSpec and the model's own tokens by id, and appends the tokens of a piece to `out`. `work`
// counts what it took: O(n log n) for a piece of n bytes, at most.
//
// Threading: immutable once built; encode() may be called from many threads at once, each with a Scratch of its own.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/text/encode_work.h"
#include "models/text/string_table.h"
#include "models/text/tokenizer_spec.h"

namespace reprise::models {

/// Which two neighbouring tokens merge into which, and in what order merges are done.
class MergeTable {
 public:
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

  struct Merge {
    std::uint32_t rank = kNever;  // lower is earlier; unique
    TokenId token = 0;            // what the two become
  };

  explicit MergeTable(std::size_t merges = 0);

  /// Of two merges of the same pair the later counts. Needs ids >= 0 and room for one more.
  void add(TokenId left, TokenId right, Merge merge);

  Merge find(TokenId left, TokenId right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t slot = slot_of(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].merge;
      if (slots_[slot].key == kFree) return {};
    }
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };

  static std::uint64_t key_of(TokenId left, TokenId right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t slot_of(std::uint64_t key) const {
    key *= 0x9E3779B97F4A7C15u;
    return (key ^ key >> 32) & mask_;
  }

  std::size_t mask_;
  std::vector<Slot> slots_;  // open addressing, at most half full
};

/// Places in a piece, by the rank of the merge that is possible there. The lowest rank comes
/// first, of equal ranks the leftmost place.
///
/// Merging goes through a piece once for each rank, from left to right, so the places of one rank are kept
/// together and mostly arrive in order. That makes long pieces walk through memory instead of jumping. What
/// comes out of order is sorted before the first place of its rank is taken, or waits in a heap after that:
/// n entries take O(n log n) whatever their order.
///
/// Threading: one thread at a time.
class MergeQueue {
 public:
  /// Empties the queue and makes it ready for ranks below `ranks`.
  void reset(std::size_t ranks);

  void push(std::uint32_t rank, std::uint32_t place);

  struct Entry {
    std::uint32_t rank;
    std::uint32_t place;
  };

  /// Takes the first entry; false if there is none.
  bool pop(Entry& entry);

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Bucket {
    std::vector<std::uint32_t> places;  // in order, unless the first has not been taken yet
    std::size_t taken = 0;              // of `places`
    bool is_sorted = true;
    std::vector<std::uint32_t> late;  // a heap of those that came behind their turn

    bool take(std::uint32_t& place);
    void put(std::uint32_t place);
    void clear();
  };

  std::vector<std::uint32_t> bucket_of_;  // by rank, or kNone
  std::vector<Bucket> buckets_;
  std::vector<std::uint32_t> free_;   // buckets that are not in use
  std::vector<std::uint32_t> ranks_;  // those with a bucket, the lowest on top of the heap
};

/// Byte-pair encoding: a piece is taken apart into symbols (bytes or characters), then the neighbouring pair
/// with the lowest rank is merged, the leftmost of equals, until no pair has a rank.
///
/// Short pieces are merged by looking through all pairs each time, long ones with a queue, so that a piece of
/// n symbols takes O(n log n). Both give the same tokens.
///
/// A symbol that has no token becomes byte-fallback tokens, else the unknown token, else nothing.
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

/// SentencePiece-style encoding: a piece is taken apart into characters, then the neighbouring pair whose
/// joined text is the token with the highest score is merged, the leftmost of equals, until no pair makes a
/// token. O(n log n) for a piece of n characters.
///
/// By the rules of SentencePiece's files (TokenizerSpec::sentencepiece) the longest token of the user's at a place is one
/// symbol, which is not merged; control, unknown and byte tokens are not made; a token that is unused is taken apart again
/// where it was put together; and a run of unknown characters is one unknown token.
///
/// A character that is no token becomes byte tokens ("<0x..>"), else the unknown token, else nothing.
class Spm {
 public:
  /// `tokens` are the model's own, by id; it must outlive this. LoadError, naming spec.source, unless every
  /// token has a score.
  Spm(const TokenizerSpec& spec, const StringTable& tokens);

  struct Scratch {
    std::vector<std::size_t> begin;  // of each symbol, in the piece
    std::vector<std::size_t> end;
    std::vector<std::uint32_t> ranks, previous, next;
    std::vector<bool> is_frozen;  // by symbol; empty: none is
    std::unordered_map<std::string_view, std::size_t>
        seams;  // of unused tokens: how much of each is its left half
    std::vector<std::string_view> to_split;
    MergeQueue queue;
  };

  /// Appends the tokens of `piece`, which is valid UTF-8.
  void encode(std::string_view piece, Scratch& scratch, EncodeWork& work, std::vector<TokenId>& out) const;

  /// Whether every byte has a token, so that no text is lost.
  bool covers_all_bytes() const { return covers_all_bytes_; }

 private:
  static constexpr std::size_t kLongestUserToken = 4096;  // bytes

  TokenId find(std::string_view text) const;
  void add_symbol(std::string_view text, Scratch& scratch, std::size_t first,
                  std::vector<TokenId>& out) const;
  void add_token(std::string_view text, std::size_t first, std::vector<TokenId>& out) const;

  const StringTable& tokens_;
  std::vector<std::uint32_t> ranks_;  // by token: 0 for the highest score; equal scores have equal ranks
  std::array<TokenId, 256> byte_tokens_;
  std::optional<TokenId> unk_;
  bool fuses_unk_;
  std::vector<TokenType> types_;  // by token; empty: all are text
  ByteTrie user_tokens_;
  bool covers_all_bytes_;
};

/// Unigram encoding, as SentencePiece and Hugging Face's tokenizers have it: of all ways to write a piece in tokens the
/// one whose logarithms of probability add up to the most; at equal sums the one that was found first, going from left to
/// right and from short tokens to long ones. A character that no token of its own covers may be unknown, at ten less than
/// the least token. O(n) for a piece of n bytes: no token is longer than kLongestToken.
///
/// Unknown characters become byte tokens ("<0x..>") where all are there, else, a run of them, the unknown token once.
class Unigram {
 public:
  static constexpr std::size_t kLongestToken = 4096;  // bytes

  /// `tokens` are the model's own, by id. LoadError, naming spec.source, unless every token has a number, or for a
  /// token that is too long.
  Unigram(const TokenizerSpec& spec, const StringTable& tokens);

  /// The best way to a place in the piece.
  struct Node {
    double score = 0;
    std::size_t begin = kNowhere;  // of its last token
    TokenId id = 0;                // of its last token; kUnknown: no token
  };
  struct Scratch {
    std::vector<Node> nodes;          // by the place they lead to
    std::vector<std::size_t> places;  // where the tokens of the best way end
  };

  /// Appends the tokens of `piece`, which is valid UTF-8.
  void encode(std::string_view piece, Scratch& scratch, EncodeWork& work, std::vector<TokenId>& out) const;

  /// Whether every byte has a token, so that no text is lost.
  bool covers_all_bytes() const { return covers_all_bytes_; }

 private:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  static constexpr TokenId kUnknown = -1;

  void add_unknown(std::string_view text, std::vector<TokenId>& out) const;

  ByteTrie trie_;
  std::vector<double> scores_;  // by id
  double unknown_score_ = 0;
  bool single_precision_;
  std::array<TokenId, 256> byte_tokens_;
  std::optional<TokenId> unk_;
  bool covers_all_bytes_;
};

/// WordPiece, as BERT's vocabularies have it: text is cleaned, lower-cased and stripped of accents, cut at
/// white space, punctuation and Chinese characters, and each word is the longest tokens that it begins with,
/// one after the other. A word that cannot be made of tokens is the unknown token.
///
/// Tokens that begin a word are written with U+2581 in front.
class WordPiece {
 public:
  WordPiece(const TokenizerSpec& spec, const StringTable& tokens);

  /// Appends the tokens of `text`, which is valid UTF-8.
  void encode(std::string_view text, EncodeWork& work, std::vector<TokenId>& out) const;

  /// Of no vocabulary: what the cleaning takes away is lost.
  bool covers_all_bytes() const { return false; }

 private:
  void add_word(std::string_view word, EncodeWork& work, std::vector<TokenId>& out) const;

  ByteTrie trie_;
  std::optional<TokenId> unk_;
  bool lower_case_;
};

/// The longest token at each place, as RWKV has it. A byte that begins no token becomes the unknown token, else nothing.
class LongestMatch {
 public:
  LongestMatch(const TokenizerSpec& spec, const StringTable& tokens);

  /// Appends the tokens of `piece`: any bytes.
  void encode(std::string_view piece, EncodeWork& work, std::vector<TokenId>& out) const;

  /// Whether every byte but 0 has a token.
  bool covers_all_bytes() const;

 private:
  ByteTrie trie_;
  std::optional<TokenId> unk_;
};

}  // namespace reprise::models
