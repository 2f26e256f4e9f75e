#pragma once
// TokenizerSpec: everything a Tokenizer is built from, as plain data. Filled from files by tokenizer_json.h,
// tokenizer_gguf.h and sentencepiece_file.h, or by hand.
//
// Encoding: added tokens are cut out of the text; the rest is normalized, split into pieces by the
// pre-tokenizer's steps in order, and each piece is encoded by the model. Decoding concatenates the tokens'
// bytes, without the space that encoding prepended.
//
// Nothing is checked here; the Tokenizer's constructor does that.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/token.h"
#include "models/text/unicode.h"

namespace reprise::models {

/// SentencePiece's mark for a space.
inline constexpr std::string_view kSpaceMark = "\u2581";

enum class TokenizerModel : std::uint8_t {
  kBpe,        // merges by rank
  kSpm,        // merges by the score of the merged token, as SentencePiece does
  kUnigram,    // the segmentation with the highest probability
  kMaxMatch,   // greedy longest match, as in RWKV
  kWordPiece,  // greedy longest match within words, as in BERT
};

enum class TokenType : std::uint8_t {
  kNormal,
  kUnknown,
  kControl,
  kUserDefined,
  kUnused,  // decodes to nothing
  kByte,    // "<0x0A>": one byte
};

/// Converts SentencePiece's and GGUF's type number, from 1; unknown numbers are kNormal.
inline TokenType token_type_numbered(std::uint64_t number) {
  constexpr TokenType kTypes[] = {TokenType::kNormal,      TokenType::kUnknown, TokenType::kControl,
                                  TokenType::kUserDefined, TokenType::kUnused,  TokenType::kByte};
  return number >= 1 && number <= std::size(kTypes) ? kTypes[number - 1] : TokenType::kNormal;
}

/// A token recognized in the text itself, before pre-tokenization and, unless `normalized`, before
/// normalization.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;      // decode() can skip it; only recognized with parse_special
  bool normalized = false;   // matched in the normalized text, by its own normalized content
  bool lstrip = false;       // swallows white space before it
  bool rstrip = false;       // swallows white space after it
  bool single_word = false;  // not matched next to a word character
};

struct NormalizerStep {
  enum class Kind : std::uint8_t { kForm, kPrepend, kReplaceText, kReplaceRegex, kStrip };
  Kind kind = Kind::kForm;
  NormalForm form = NormalForm::kNfc;          // kForm
  std::string pattern;                         // kReplaceText, kReplaceRegex
  std::string content;                         // kReplace*: the replacement; kPrepend: the text to prepend
  bool strip_left = true, strip_right = true;  // kStrip: white space at either end
};

/// How a split step treats its matches.
enum class SplitBehavior : std::uint8_t {
  kIsolated,            // a piece of its own
  kRemoved,             // dropped
  kMergedWithPrevious,  // joined to the piece before it
  kMergedWithNext,      // joined to the piece after it
  kContiguous,          // adjacent matches form one piece
};

struct PreTokenizerStep {
  enum class Kind : std::uint8_t {
    kSplitRegex,   // `pattern` in Oniguruma's syntax
    kSplitText,    // `pattern` is literal
    kMetaspace,    // spaces become `replacement`; splits before each if `split`
    kPrefixSpace,  // prepends a space to text that does not begin with one
    kByteLevel,    // bytes become letters of the byte alphabet
  };
  enum class Prepend : std::uint8_t { kNever, kFirst, kAlways };

  Kind kind = Kind::kSplitRegex;
  std::string pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // swap matches and the text between them
  std::string replacement = std::string(kSpaceMark);
  Prepend prepend = Prepend::kNever;
  bool split = true;
};

struct DecoderSpec {
  enum class Alphabet : std::uint8_t {
    kText,       // a token decodes to its text
    kByteLevel,  // its text is in the byte alphabet
  };
  Alphabet alphabet = Alphabet::kText;
  bool byte_tokens = false;                                       // "<0x0A>" decodes to that byte
  std::vector<std::pair<std::string, std::string>> replacements;  // within a token's text, applied in order
  std::size_t strip_leading_spaces = 0;                           // maximum stripped from the whole text
  bool strip_first_token = false;  // strip all spaces that come from replacements in the first token
};

struct TokenizerSpec {
  std::string source;  // the file, for error messages

  TokenizerModel model = TokenizerModel::kBpe;
  std::vector<std::string> tokens;  // by id; an empty string means no token
  std::vector<TokenType> types;     // by id; empty: all normal
  std::vector<AddedToken> added;

  std::vector<std::pair<std::string, std::string>> merges;  // kBpe: by rank
  std::vector<float> scores;                                // kSpm: by id
  std::vector<double> log_probs;                            // kUnigram: by id
  bool byte_level = false;      // kBpe: symbols are bytes, and the vocabulary is in the byte alphabet
  bool byte_fallback = false;   // characters without a token become "<0x..>" tokens
  bool ignore_merges = false;   // kBpe: a piece that is a token is not split
  bool fuse_unk = false;        // a run of unknown characters makes one unknown token
  bool lenient_merges = false;  // kBpe: ignore merges of unknown tokens

  /// kSpm, kUnigram: rules of SentencePiece's own files. Text never produces control, unknown and byte
  /// tokens; user-defined tokens are matched first and never merged; merged tokens of type unused are split
  /// again.
  bool sentencepiece = false;

  bool lower_case = false;  // kWordPiece: lower-case and strip accents

  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  DecoderSpec decoder;

  std::optional<TokenId> unk, bos, eos, pad;
  bool add_bos = false;  // encode() adds neither
  bool add_eos = false;
};

}  // namespace reprise::models
