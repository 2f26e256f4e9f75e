#pragma once
// Steps applied to a text before the model encodes it: the Normalizer rewrites it, the PreTokenizer splits it
// into pieces. Both apply a list of steps in order.
//
// Threading: immutable; const access from any thread, with one Session per thread for PreTokenizer::run().

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/text/encode_work.h"
#include "models/text/regex.h"
#include "models/text/tokenizer_spec.h"
#include "models/text/word_scanner.h"

namespace reprise::models {

class Normalizer {
 public:
  /// Throws LoadError, naming `source`, for a pattern that does not compile.
  Normalizer(std::vector<NormalizerStep> steps, std::string_view source);

  /// Returns `text` itself if nothing changes, else its normalized form, held by `storage`. Requires: valid
  /// UTF-8.
  std::string_view run(std::string_view text, std::string& storage) const;

 private:
  struct Step {
    NormalizerStep spec;
    std::optional<Regex> regex;  // kReplaceRegex
  };
  static std::string apply(const Step& step, std::string_view text);

  std::vector<Step> steps_;
};

/// Receives the pieces in order; none is empty.
class PieceSink {
 public:
  virtual void piece(std::string_view bytes) = 0;

 protected:
  ~PieceSink() = default;
};

/// Each step sees every piece of the previous step as a separate text: anchors and lookarounds do not reach
/// into neighbors. Known word patterns use hand-written scanners (word_scanner.h), others PCRE2.
class PreTokenizer {
 public:
  /// Throws LoadError, naming `source`, for a step that is not supported.
  PreTokenizer(const std::vector<PreTokenizerStep>& steps, std::string_view source);

  /// Per-thread state; must not outlive the PreTokenizer.
  class Session {
   public:
    Session(const PreTokenizer& owner, EncodeWork& work) : matchers_(owner.steps_.size()), work_(&work) {}

   private:
    friend class PreTokenizer;
    std::vector<std::optional<Regex::Matcher>> matchers_;  // by step, created on first use
    EncodeWork* work_;
  };

  /// Requires: `text` is valid UTF-8. `is_first`: it is at the start of the whole text. Throws RegexError if
  /// a pattern exceeds its limits.
  void run(std::string_view text, bool is_first, Session& session, PieceSink& sink) const;

 private:
  struct Step {
    PreTokenizerStep spec;
    std::optional<WordPattern> words;  // kSplitRegex: either `words` or `regex`
    std::optional<Regex> regex;
  };
  struct Span {
    std::size_t begin;
    std::size_t end;
    bool is_match;
  };

  void run_from(std::size_t step, std::string_view text, bool is_first, Session& session,
                PieceSink& sink) const;
  void split_words(std::size_t step, std::string_view text, bool is_first, Session& session,
                   PieceSink& sink) const;
  void split_regex(std::size_t step, std::string_view text, bool is_first, Session& session,
                   PieceSink& sink) const;
  void metaspace(std::size_t step, std::string_view text, bool is_first, Session& session,
                 PieceSink& sink) const;
  void run_spans(std::size_t step, std::string_view text, const std::vector<Span>& spans, bool is_first,
                 Session& session, PieceSink& sink) const;
  Regex::Matcher& matcher(std::size_t step, Session& session) const;

  static std::vector<Span> spans_of_text(std::string_view text, std::string_view wanted);
  static std::vector<Span> fold(const std::vector<Span>& spans, SplitBehavior behavior);

  std::vector<Step> steps_;
  bool is_in_letters_ = false;  // pieces end up in the byte alphabet and are converted back
};

}  // namespace reprise::models
