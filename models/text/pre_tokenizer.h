#pragma once
// What a text goes through before the model encodes it: the Normalizer rewrites it, the PreTokenizer cuts it into pieces.
// Both are lists of steps that run one after the other, and immutable.
//
// Threading: const access from any thread; PreTokenizer::run() with a Session of its own for each.

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

/// Takes the pieces in order. None is empty.
class PieceSink {
 public:
  virtual void piece(std::string_view bytes) = 0;

 protected:
  ~PieceSink() = default;
};

/// Each step sees every piece of the step before as a text of its own: anchors and lookaheads do not reach into the
/// neighbours. Known word patterns are scanned by hand (word_scanner.h), the rest goes through PCRE2.
class PreTokenizer {
 public:
  /// LoadError, naming `source`, for a step that cannot be done.
  PreTokenizer(const std::vector<PreTokenizerStep>& steps, std::string_view source);

  /// The state of one caller. Must not outlive the PreTokenizer.
  class Session {
   public:
    Session(const PreTokenizer& owner, EncodeWork& work) : matchers_(owner.steps_.size()), work_(&work) {}

   private:
    friend class PreTokenizer;
    std::vector<std::optional<Regex::Matcher>> matchers_;  // by step, made when first used
    EncodeWork* work_;
  };

  /// `text` is valid UTF-8; `is_first` says that it stands at the start of the whole text. RegexError if a
  /// pattern gives up.
  void run(std::string_view text, bool is_first, Session& session, PieceSink& sink) const;

 private:
  struct Step {
    PreTokenizerStep spec;
    std::optional<WordPattern> words;  // kSplitRegex: one of the two
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
  bool is_in_letters_ = false;  // pieces end up in the byte alphabet and have to be brought back
};

}  // namespace reprise::models
