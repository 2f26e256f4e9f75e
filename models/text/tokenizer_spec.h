#pragma once
// TokenizerSpec: everything a Tokenizer is built from, as plain data. tokenizer_json.h, tokenizer_gguf.h and
// sentencepiece_file.h fill it from files; a test or an embedder may fill it by hand.
//
// The way of a text: added tokens are cut out of it; what is left is normalised, cut into pieces by the
// pre-tokenizer's steps in order, and each piece is encoded by the model. Decoding is the concatenation of
// the tokens' bytes, less the space that encoding put in front.
//
// Nothing here is checked; the Tokenizer's constructor does that.

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

/// How SentencePiece writes a space.
inline constexpr std::string_view kSpaceMark = "\u2581";

enum class TokenizerModel : std::uint8_t {
  kBpe,           // merges by rank
  kSpm,           // merges by the score of the merged token, as SentencePiece does
  kUnigram,       // the tokens whose probabilities have the highest product
  kLongestMatch,  // the longest token at each place, as RWKV does
  kWordPiece,     // the longest tokens that make up each word, as BERT does
};

enum class TokenType : std::uint8_t {
  kNormal,
  kUnknown,
  kControl,
  kUserDefined,
  kUnused,  // decodes to nothing
  kByte,    // "<0x0A>": one byte
};

/// By the number that SentencePiece and GGUF give it, from 1; any that they do not know is a normal one's.
inline TokenType token_type_numbered(std::uint64_t number) {
  constexpr TokenType kTypes[] = {TokenType::kNormal,      TokenType::kUnknown, TokenType::kControl,
                                  TokenType::kUserDefined, TokenType::kUnused,  TokenType::kByte};
  return number >= 1 && number <= std::size(kTypes) ? kTypes[number - 1] : TokenType::kNormal;
}

/// A token that is recognised in the text itself, before normalisation and pre-tokenisation.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;      // skipped by decode() on request; not recognised without parse_special
  bool normalized = false;   // looked for in the normalised text, by its own normalised content
  bool lstrip = false;       // swallows the white space before it
  bool rstrip = false;       // swallows the white space after it
  bool single_word = false;  // only where no word character touches it
};

struct NormalizerStep {
  enum class Kind : std::uint8_t { kForm, kPrepend, kReplaceText, kReplaceRegex, kStrip };
  Kind kind = Kind::kForm;
  NormalForm form = NormalForm::kNfc;          // kForm
  std::string pattern;                         // kReplaceText, kReplaceRegex
  std::string content;                         // kReplace*: the replacement; kPrepend: what goes in front
  bool strip_left = true, strip_right = true;  // kStrip: white space at the ends
};

/// What becomes of the text that a split step matched.
enum class SplitBehavior : std::uint8_t {
  kIsolated,            // a piece of its own
  kRemoved,             // dropped
  kMergedWithPrevious,  // joined to the piece before it
  kMergedWithNext,      // joined to the piece after it
  kContiguous,          // neighbouring matches make one piece
};

struct PreTokenizerStep {
  enum class Kind : std::uint8_t {
    kSplitRegex,   // `pattern` in Oniguruma's syntax
    kSplitText,    // `pattern` as it stands
    kMetaspace,    // spaces become `replacement`; cut before each of them if `split`
    kPrefixSpace,  // a space in front of text that does not begin with one
    kByteLevel,    // bytes become letters of the byte alphabet
  };
  enum class Prepend : std::uint8_t { kNever, kFirst, kAlways };

  Kind kind = Kind::kSplitRegex;
  std::string pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // the text between the matches counts as matched
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
  bool byte_tokens = false;                                       // "<0x0A>" is the byte
  std::vector<std::pair<std::string, std::string>> replacements;  // within a token's text, in order
  std::size_t strip_leading_spaces = 0;                           // at most so many, of the whole text
  bool strip_first_token = false;  // all spaces that come from replacements in the first token
};

struct TokenizerSpec {
  std::string source;  // the file, for error messages

  TokenizerModel model = TokenizerModel::kBpe;
  std::vector<std::string> tokens;  // by id; an empty one does not exist
  std::vector<TokenType> types;     // by id; empty: all normal
  std::vector<AddedToken> added;

  std::vector<std::pair<std::string, std::string>> merges;  // kBpe: by rank
  std::vector<float> scores;                                // kSpm: by id
  std::vector<double> log_probs;                            // kUnigram: by id
  bool byte_level = false;      // kBpe: pieces are bytes, the vocabulary is in the byte alphabet
  bool byte_fallback = false;   // characters without a token become "<0x..>" tokens
  bool ignore_merges = false;   // kBpe: a piece that is a token is that token
  bool fuse_unk = false;        // neighbouring unknown characters make one unknown token
  bool lenient_merges = false;  // kBpe: merges of tokens that do not exist are left out

  /// kSpm, kUnigram: by the rules of SentencePiece's own files. Control, unknown and byte tokens are never made of text;
  /// tokens of the user's are recognised first and never part of another; unused ones are taken apart again.
  bool sentencepiece = false;

  bool lower_case = false;  // kWordPiece: and without accents

  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  DecoderSpec decoder;

  std::optional<TokenId> unk, bos, eos, pad;
  bool add_bos = false;  // what the file asks for; encode() adds nothing by itself
  bool add_eos = false;
};

}  // namespace reprise::models
