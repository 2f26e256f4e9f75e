#pragma once
// TextStream: incremental decoding of generated tokens, up to the first stop string.
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
  std::size_t index = 0;     // of the stop string in the list
  std::size_t position = 0;  // bytes from the start of the whole text to the match
};

/// Passes text through until a stop string appears in it.
///
/// Holds back only the longest suffix that is a prefix of a stop string. The stop string that completes first
/// wins; among several that end together, the longest. The result does not depend on how the text is split
/// into pushes. Time is O(bytes * stop strings).
class StopStrings {
 public:
  /// Empty strings are ignored.
  explicit StopStrings(std::vector<std::string> stops = {});

  /// Adds text and returns the text that cannot belong to a stop string. When one is found, returns the text
  /// before it, and nothing from then on.
  std::string push(std::string_view text);

  /// Ends the text: returns what was held back, unless a stop string was found.
  std::string flush();

  const std::optional<StopMatch>& match() const { return match_; }

 private:
  struct Stop {
    std::string text;
    std::vector<std::size_t> shorter;  // KMP failure function by length matched
    std::size_t matched = 0;           // length of the text's suffix that is a prefix of this string
  };
  static void advance(Stop& stop, char byte);

  std::vector<Stop> stops_;
  std::string held_;
  std::size_t taken_ = 0;  // total bytes pushed
  std::optional<StopMatch> match_;
};

/// Decodes tokens one by one.
///
/// Returns whole UTF-8 characters: bytes of an incomplete one are held until it is complete or known to be
/// invalid. The concatenation of all results of push() and flush() is Tokenizer::decode() of the ids, up to
/// the first stop string.
class TextStream {
 public:
  /// For generated text, set `options.continuation`: it follows the prompt.
  explicit TextStream(const Tokenizer& tokenizer, DecodeOptions options = {},
                      std::vector<std::string> stops = {});

  /// Adds a token and returns the text that is final; often empty.
  std::string push(TokenId id);

  /// Returns the rest after the last token. Call it once.
  std::string flush();

  /// Set once a stop string was found; no text follows. Its position counts bytes of the decoded text.
  const std::optional<StopMatch>& stop() const { return stops_.match(); }

 private:
  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  Tokenizer::DecodeState state_;
  std::string pending_;  // bytes of an incomplete character
  StopStrings stops_;
};

}  // namespace reprise::models
