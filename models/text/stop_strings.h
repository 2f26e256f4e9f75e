#pragma once
// StopStrings: lets text through until one of some strings appears in it.
//
// Held back is only what may still become a stop string: the longest end of the text so far that begins one.
// The stop string that is complete first counts; of several that end together, the longest. How the text is
// cut into pushes makes no difference to the result. Time is O(bytes * stop strings).
//
// Threading: one thread at a time.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::models {

struct StopMatch {
  std::size_t index = 0;     // which of the stop strings
  std::size_t position = 0;  // where it begins, in bytes of the whole text
};

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

}  // namespace reprise::models
