#pragma once
// TextStream: the text of tokens as they come, up to the first stop string.
//
// Threading: one thread at a time. The Tokenizer must outlive the stream.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/text/tokenizer.h"

namespace reprise::models {

struct StopMatch {
  std::size_t index = 0;     // which of the stop strings
  std::size_t position = 0;  // where it begins, in bytes of the whole text
};

/// Lets text through until one of some strings appears in it.
///
/// Held back is only what may still become a stop string: the longest end of the text so far that begins one.
/// The stop string that is complete first counts; of several that end together, the longest. How the text is
/// cut into pushes makes no difference to the result. Time is O(bytes * stop strings).
class StopStrings {
 public:
  /// An empty string stops nothing.
  explicit StopStrings(std::vector<std::string> stops = {});

  /// Takes more text and returns what is sure not to belong to a stop string. Once one is found it returns
  /// what stood before it, and then nothing more.
  std::string push(std::string_view text);

  /// The end of the text: what was held back, unless a stop string was found.
  std::string flush();

  const std::optional<StopMatch>& match() const { return match_; }

 private:
  struct Stop {
    std::string text;
    std::vector<std::size_t> shorter;  // by length matched: the next shorter end that is a beginning too
    std::size_t matched = 0;           // bytes of the text's end that begin this string
  };
  static void advance(Stop& stop, char byte);

  std::vector<Stop> stops_;
  std::string held_;
  std::size_t taken_ = 0;  // bytes pushed
  std::optional<StopMatch> match_;
};

/// The text of tokens as they come.
///
/// Text comes out in whole UTF-8 characters: bytes of an unfinished one are held until it is complete or
/// cannot become so. All that push() and flush() return, put together, is Tokenizer::decode() of the ids, up
/// to the first stop string.
class TextStream {
 public:
  /// Generated text goes on from the prompt's, so it wants `options.continuation`.
  explicit TextStream(const Tokenizer& tokenizer, DecodeOptions options = {},
                      std::vector<std::string> stops = {});

  /// The text that has become certain with this token; often empty.
  std::string push(TokenId id);

  /// The rest, when no more tokens come. Call it once.
  std::string flush();

  /// Set once a stop string has come up; after that there is no more text. Its position counts in the bytes
  /// of the text that came out.
  const std::optional<StopMatch>& stop() const { return stops_.match(); }

 private:
  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  Tokenizer::DecodeState state_;
  std::string pending_;  // bytes that are no characters yet
  StopStrings stops_;
};

}  // namespace reprise::models
