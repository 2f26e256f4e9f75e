#pragma once
// Models that encode a piece of text as tokens. Bpe and Spm merge neighboring tokens by rank and by score;
// Unigram finds the likeliest segmentation, WordPiece and LongestMatch the longest tokens.
//
// Each is built from a TokenizerSpec and the model's own tokens by id. encode() appends to `out` and adds its
// work to `work`: at most O(n log n) for a piece of n bytes.
//
// Threading: immutable; encode() may run on many threads at once, each with its own Scratch.

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

/// Hash map from a pair of neighboring tokens to the rank and result of their merge.
class MergeTable {
 public:
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

  struct Merge {
    std::uint32_t rank = kNever;  // lower is earlier; unique
    TokenId token = 0;            // the merged token
  };

  explicit MergeTable(std::size_t merges = 0);

  /// Adds a merge; it replaces an earlier one of the same pair. Requires: ids >= 0, and fewer than `merges`
  /// merges added.
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
  std::vector<Slot> slots_;  // open addressing, at most half full; size is a power of two
};

/// Priority queue of positions in a piece by the rank of their merge: lowest rank first, then leftmost.
///
/// BPE merges one rank at a time from left to right, so positions are kept in one bucket per rank and mostly
/// arrive in order; long pieces then access memory sequentially. Positions that arrive out of order are
/// sorted before the first one of their rank is popped, or go to a heap after that, so n entries take O(n log
/// n) in any order.
///
/// Threading: one thread at a time.
class MergeQueue {
 public:
  /// Empties the queue and prepares it for ranks below `ranks`.
  void reset(std::size_t ranks);

  void push(std::uint32_t rank, std::uint32_t position);

  struct Entry {
    std::uint32_t rank;
    std::uint32_t position;
  };

  /// Pops the first entry; returns false if the queue is empty.
  bool pop(Entry& entry);

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Bucket {
    std::vector<std::uint32_t> positions;  // sorted once the first has been popped
    std::size_t taken = 0;                 // number of `positions` popped
    bool is_sorted = true;
    std::vector<std::uint32_t> late;  // heap of positions that arrived out of order after the first pop

    bool take(std::uint32_t& position);
    void put(std::uint32_t position);
    void clear();
  };

  std::vector<std::uint32_t> bucket_of_;  // bucket index by rank, or kNone
  std::vector<Bucket> buckets_;
  std::vector<std::uint32_t> free_;   // unused buckets
  std::vector<std::uint32_t> ranks_;  // min-heap of ranks that have a bucket
};

/// Byte-pair encoding: splits a piece into symbols (bytes or characters), then merges the neighboring pair
/// with the lowest rank, leftmost first, until no pair has a rank.
///
/// Short pieces scan all pairs for each merge; long ones use a queue, so that n symbols take O(n log n). Both
/// give the same tokens.
///
/// A symbol without a token becomes byte-fallback tokens, else the unknown token, else nothing.
class Bpe {
 public:
  /// `tokens` are the model's own by id and must outlive this. Throws LoadError, naming spec.source, for
  /// merges of unknown tokens.
  Bpe(const TokenizerSpec& spec, const StringTable& tokens);

  /// Buffers reused between pieces.
  struct Scratch {
    std::vector<TokenId> symbols;
    std::vector<std::uint32_t> ranks, previous, next;
    MergeQueue queue;
  };

  /// Requires: valid UTF-8, unless the model is byte-level.
  void encode(std::string_view piece, Scratch& scratch, EncodeWork& work, std::vector<TokenId>& out) const;

  /// True if every byte has a token, so that no text is lost.
  bool covers_all_bytes() const { return covers_all_bytes_; }

 private:
  static constexpr std::size_t kShort = 40;  // symbols; longer pieces use the queue

  void add_symbols(std::string_view piece, Scratch& scratch) const;
  void add_fallback(std::string_view character, Scratch& scratch) const;
  void merge_short(Scratch& scratch, EncodeWork& work) const;
  void merge_long(Scratch& scratch, EncodeWork& work) const;

  const StringTable& tokens_;
  StringTable whole_;  // byte-level with ignore_merges: token by its bytes
  MergeTable merges_;
  std::array<TokenId, 256> byte_tokens_;    // byte-level: token of each byte, or -1
  std::array<TokenId, 256> byte_fallback_;  // token "<0x..>" of each byte, or -1
  std::optional<TokenId> unk_;
  std::vector<TokenId> merged_;  // merged token by rank
  bool byte_level_;
  bool ignore_merges_;
  bool fuse_unk_;
  bool covers_all_bytes_;
};

/// SentencePiece BPE: splits a piece into characters, then merges the neighboring pair whose joined text is
/// the token with the highest score, leftmost first, until no pair forms a token. O(n log n) for n
/// characters.
///
/// With TokenizerSpec::sentencepiece: user-defined tokens are matched first, longest first, and never merged;
/// control, unknown and byte tokens are not produced from text; a merged token of type unused is split again;
/// a run of unknown characters becomes one unknown token.
///
/// A character without a token becomes byte tokens ("<0x..>"), else the unknown token, else nothing.
class Spm {
 public:
  /// `tokens` are the model's own by id and must outlive this. Throws LoadError, naming spec.source, unless
  /// every token has a score.
  Spm(const TokenizerSpec& spec, const StringTable& tokens);

  struct Scratch {
    std::vector<std::size_t> begin;  // byte offsets of each symbol
    std::vector<std::size_t> end;
    std::vector<std::uint32_t> ranks, previous, next;
    std::vector<bool> is_frozen;  // by symbol: must not be merged; empty: no symbol is
    // By unused token: length of the left token it was merged from.
    std::unordered_map<std::string_view, std::size_t> seams;
    std::vector<std::string_view> to_split;
    MergeQueue queue;
  };

  /// Requires: valid UTF-8.
  void encode(std::string_view piece, Scratch& scratch, EncodeWork& work, std::vector<TokenId>& out) const;

  bool covers_all_bytes() const { return covers_all_bytes_; }

 private:
  static constexpr std::size_t kMaxUserTokenLength = 4096;  // bytes

  TokenId find(std::string_view text) const;
  void add_symbol(std::string_view text, Scratch& scratch, std::size_t first,
                  std::vector<TokenId>& out) const;
  void add_token(std::string_view text, std::size_t first, std::vector<TokenId>& out) const;

  const StringTable& tokens_;
  std::vector<std::uint32_t> ranks_;  // by token; 0: highest score; equal scores share a rank
  std::array<TokenId, 256> byte_tokens_;
  std::optional<TokenId> unk_;
  bool fuses_unk_;
  std::vector<TokenType> types_;  // by token; empty: all are normal text
  ByteTrie user_tokens_;
  bool covers_all_bytes_;
};

/// Unigram encoding as in SentencePiece and Hugging Face tokenizers: the segmentation with the largest sum of
/// log probabilities; among equal sums, the first found going left to right and from short tokens to long
/// ones. A character that no single-character token covers may be unknown, with a score of ten less than the
/// lowest token's. O(n) for n bytes, as no token exceeds kMaxTokenLength.
///
/// Unknown characters become byte tokens ("<0x..>") if the vocabulary has them all, else each run of them one
/// unknown token.
class Unigram {
 public:
  static constexpr std::size_t kMaxTokenLength = 4096;  // bytes

  /// `tokens` are the model's own by id. Throws LoadError, naming spec.source, if a token has no log
  /// probability or is too long.
  Unigram(const TokenizerSpec& spec, const StringTable& tokens);

  /// Best segmentation of a prefix of the piece.
  struct Node {
    double score = 0;
    std::size_t begin = kNowhere;  // start of its last token
    TokenId id = 0;                // its last token; kUnknown: none
  };
  struct Scratch {
    std::vector<Node> nodes;        // by end offset of the prefix
    std::vector<std::size_t> ends;  // token ends of the best segmentation
  };

  /// Requires: valid UTF-8.
  void encode(std::string_view piece, Scratch& scratch, EncodeWork& work, std::vector<TokenId>& out) const;

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

/// WordPiece as in BERT: cleans the text, optionally lower-cases it and strips accents, splits at white
/// space, punctuation and Chinese characters, and encodes each word greedily by its longest prefixes. A word
/// that cannot be fully encoded becomes the unknown token.
///
/// Tokens that begin a word are written with a leading U+2581.
class WordPiece {
 public:
  WordPiece(const TokenizerSpec& spec, const StringTable& tokens);

  /// Requires: valid UTF-8.
  void encode(std::string_view text, EncodeWork& work, std::vector<TokenId>& out) const;

  /// Always false: cleaning discards text.
  bool covers_all_bytes() const { return false; }

 private:
  void add_word(std::string_view word, EncodeWork& work, std::vector<TokenId>& out) const;

  ByteTrie trie_;
  std::optional<TokenId> unk_;
  bool lower_case_;
};

/// Greedy longest match, as in RWKV. A byte that begins no token becomes the unknown token, else nothing.
class LongestMatch {
 public:
  LongestMatch(const TokenizerSpec& spec, const StringTable& tokens);

  /// `piece` may be any bytes.
  void encode(std::string_view piece, EncodeWork& work, std::vector<TokenId>& out) const;

  /// True if every byte except 0 has a token.
  bool covers_all_bytes() const;

 private:
  ByteTrie trie_;
  std::optional<TokenId> unk_;
};

}  // namespace reprise::models
