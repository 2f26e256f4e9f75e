#pragma once
// The normalizer: rewrites text before it is cut into pieces.
//
// Threading: immutable; const access from any thread.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/text/regex.h"
#include "models/text/tokenizer_spec.h"

namespace reprise::models {

class Normalizer {
 public:
  /// LoadError, naming `source`, for a pattern that cannot be compiled.
  Normalizer(std::vector<NormalizerStep> steps, std::string_view source);

  /// `text` (valid UTF-8) itself if nothing changes, else its normalised form, which `storage` then holds.
  std::string_view run(std::string_view text, std::string& storage) const;

 private:
  struct Step {
    NormalizerStep spec;
    std::optional<Regex> regex;  // kReplaceRegex
  };
  static std::string apply(const Step& step, std::string_view text);

  std::vector<Step> steps_;
};

}  // namespace reprise::models
