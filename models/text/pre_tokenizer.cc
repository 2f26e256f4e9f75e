#include "models/text/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "models/files/load_error.h"
#include "models/text/byte_alphabet.h"
#include "models/text/regex.h"
#include "models/text/unicode.h"

namespace reprise::models {
namespace {

using NormalKind = NormalizerStep::Kind;
using StepKind = PreTokenizerStep::Kind;

// Compiles a pattern in Oniguruma's syntax; `source` and `part` name it in errors.
Regex compile(const std::string& pattern, std::string_view source, std::string_view part) {
  try {
    return Regex(to_pcre2(pattern));
  } catch (const RegexError& error) {
    throw LoadError(source, part, std::string("pattern: ") + error.what());
  }
}

bool is_space_at(std::string_view text, std::size_t at) {
  return (char_class(read_valid_utf8(text, at).code_point) & kSpace) != 0;
}

std::string_view strip(std::string_view text, bool left, bool right) {
  while (left && !text.empty() && is_space_at(text, 0)) text.remove_prefix(read_valid_utf8(text, 0).length);
  while (right && !text.empty()) {
    const std::size_t last = previous_utf8(text, text.size());
    if (!is_space_at(text, last)) break;
    text = text.substr(0, last);
  }
  return text;
}

std::string replace_text(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at; (at = text.find(pattern, done)) != std::string_view::npos;) {
    out.append(text.substr(done, at - done)).append(content);
    done = at + pattern.size();
  }
  return out.append(text.substr(done));
}

std::string replace_regex(std::string_view text, const Regex& regex, std::string_view content) {
  std::string out;
  std::size_t done = 0;
  Regex::Matcher matcher(regex);
  matcher.start(text);
  while (matcher.next()) {
    out.append(text.substr(done, matcher.begin() - done)).append(content);
    done = matcher.end();
  }
  return out.append(text.substr(done));
}

// True if a quick check shows that the step changes nothing.
bool is_idle(const NormalizerStep& step, std::string_view text) {
  switch (step.kind) {
    case NormalKind::kForm:
      return is_plainly_normal(text, step.form);
    case NormalKind::kPrepend:
      return text.empty();
    case NormalKind::kReplaceText:
      return step.pattern.empty() || text.find(step.pattern) == std::string_view::npos;
    case NormalKind::kReplaceRegex:
    case NormalKind::kStrip:
      return false;
  }
  return false;
}

// DeepSeek's `\s+$` is quadratic: it retries from each of n spaces before a word. Matching only where white
// space begins gives the same result in one attempt.
std::string linear_form(const std::string& pattern) {
  return pattern == R"(\s+$)" ? R"((?<!\s)\s+$)" : pattern;
}

}  // namespace

Normalizer::Normalizer(std::vector<NormalizerStep> steps, std::string_view source) {
  for (NormalizerStep& spec : steps) {
    Step step{std::move(spec), std::nullopt};
    if (step.spec.kind == NormalKind::kReplaceRegex)
      step.regex = compile(step.spec.pattern, source, "normalizer");
    steps_.push_back(std::move(step));
  }
}

std::string Normalizer::apply(const Step& step, std::string_view text) {
  const NormalizerStep& spec = step.spec;
  switch (spec.kind) {
    case NormalKind::kForm:
      return normalize(text, spec.form);
    case NormalKind::kPrepend:
      return spec.content + std::string(text);
    case NormalKind::kReplaceText:
      return replace_text(text, spec.pattern, spec.content);
    case NormalKind::kReplaceRegex:
      return replace_regex(text, *step.regex, spec.content);
    case NormalKind::kStrip:
      return std::string(strip(text, spec.strip_left, spec.strip_right));
  }
  return std::string(text);
}

std::string_view Normalizer::run(std::string_view text, std::string& storage) const {
  for (const Step& step : steps_) {
    if (is_idle(step.spec, text)) continue;
    std::string changed = apply(step, text);
    storage = std::move(changed);
    text = storage;
  }
  return text;
}

PreTokenizer::PreTokenizer(const std::vector<PreTokenizerStep>& steps, std::string_view source) {
  constexpr std::size_t kMaxSteps = 64;
  if (steps.size() > kMaxSteps) throw LoadError(source, "pre_tokenizer", "more than 64 steps");
  for (const PreTokenizerStep& spec : steps) {
    Step step{spec, std::nullopt, std::nullopt};
    const bool is_split = spec.kind == StepKind::kSplitRegex || spec.kind == StepKind::kSplitText;
    if (is_in_letters_ && !is_split) {
      throw LoadError(source, "pre_tokenizer", "only splits are supported behind ByteLevel");
    }
    if (spec.kind == StepKind::kByteLevel) is_in_letters_ = true;
    if (spec.kind == StepKind::kSplitText && spec.pattern.empty()) continue;  // matches nothing
    if (spec.kind == StepKind::kMetaspace && spec.replacement.empty()) {
      throw LoadError(source, "pre_tokenizer", "Metaspace with an empty replacement");
    }
    if (spec.kind == StepKind::kSplitRegex) {
      if (spec.behavior == SplitBehavior::kIsolated) step.words = find_word_pattern(spec.pattern);
      if (!step.words) step.regex = compile(linear_form(spec.pattern), source, "pre_tokenizer");
    }
    steps_.push_back(std::move(step));
  }
  // Letters and bytes map one to one, so a final byte-level step needs no conversion to letters.
  if (!steps_.empty() && steps_.back().spec.kind == StepKind::kByteLevel) {
    steps_.pop_back();
    is_in_letters_ = false;
  }
}

void PreTokenizer::run(std::string_view text, bool is_first, Session& session, PieceSink& sink) const {
  run_from(0, text, is_first, session, sink);
}

void PreTokenizer::run_from(std::size_t step, std::string_view text, bool is_first, Session& session,
                            PieceSink& sink) const {
  if (text.empty()) return;
  if (step == steps_.size()) {
    if (!is_in_letters_) return sink.piece(text);
    const std::optional<std::string> bytes = from_letters(text);
    REPRISE_CHECK(bytes.has_value(), "splitting a text cut one of its byte-level letters");
    return sink.piece(*bytes);
  }
  const Step& current = steps_[step];
  switch (current.spec.kind) {
    case StepKind::kSplitRegex:
      return current.words ? split_words(step, text, is_first, session, sink)
                           : split_regex(step, text, is_first, session, sink);
    case StepKind::kSplitText: {
      std::vector<Span> spans = spans_of_text(text, current.spec.pattern);
      if (current.spec.invert) {
        for (Span& span : spans) span.is_match = !span.is_match;
      }
      return run_spans(step, text, fold(spans, current.spec.behavior), is_first, session, sink);
    }
    case StepKind::kMetaspace:
      return metaspace(step, text, is_first, session, sink);
    case StepKind::kPrefixSpace:
      if (text.front() == ' ') return run_from(step + 1, text, is_first, session, sink);
      return run_from(step + 1, ' ' + std::string(text), is_first, session, sink);
    case StepKind::kByteLevel:
      return run_from(step + 1, to_letters(text), is_first, session, sink);
  }
}

void PreTokenizer::split_words(std::size_t step, std::string_view text, bool is_first, Session& session,
                               PieceSink& sink) const {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = next_word(*steps_[step].words, text, begin, session.work_->scanned);
    run_from(step + 1, text.substr(begin, end - begin), is_first && begin == 0, session, sink);
    begin = end;
  }
}

Regex::Matcher& PreTokenizer::matcher(std::size_t step, Session& session) const {
  auto& matcher = session.matchers_[step];
  if (!matcher) matcher.emplace(*steps_[step].regex);
  return *matcher;
}

void PreTokenizer::split_regex(std::size_t step, std::string_view text, bool is_first, Session& session,
                               PieceSink& sink) const {
  const PreTokenizerStep& spec = steps_[step].spec;
  Regex::Matcher& found = matcher(step, session);
  found.start(text);
  std::vector<Span> spans;
  const auto emit = [&](std::size_t begin, std::size_t end, bool is_match) {
    if (spec.behavior != SplitBehavior::kIsolated) {
      spans.push_back({begin, end, is_match != spec.invert});
    } else {
      run_from(step + 1, text.substr(begin, end - begin), is_first && begin == 0, session, sink);
    }
  };
  std::size_t done = 0;
  for (; found.next(); done = found.end()) {
    ++session.work_->searches;
    if (found.begin() > done) emit(done, found.begin(), false);
    emit(std::max(done, found.begin()), found.end(), true);
  }
  ++session.work_->searches;
  if (done < text.size()) emit(done, text.size(), false);
  if (!spans.empty()) run_spans(step, text, fold(spans, spec.behavior), is_first, session, sink);
}

void PreTokenizer::metaspace(std::size_t step, std::string_view text, bool is_first, Session& session,
                             PieceSink& sink) const {
  const PreTokenizerStep& spec = steps_[step].spec;
  std::string marked;
  marked.reserve(text.size() + text.size() / 2);
  const bool is_marked = text.front() == ' ' || text.starts_with(spec.replacement);
  const bool wants_mark = spec.prepend == PreTokenizerStep::Prepend::kAlways ||
                          (spec.prepend == PreTokenizerStep::Prepend::kFirst && is_first);
  if (wants_mark && !is_marked) marked += spec.replacement;
  for (const char c : text) {
    if (c == ' ') {
      marked += spec.replacement;
    } else {
      marked += c;
    }
  }
  if (!spec.split) return run_from(step + 1, marked, is_first, session, sink);
  run_spans(step, marked, fold(spans_of_text(marked, spec.replacement), SplitBehavior::kMergedWithNext),
            is_first, session, sink);
}

void PreTokenizer::run_spans(std::size_t step, std::string_view text, const std::vector<Span>& spans,
                             bool is_first, Session& session, PieceSink& sink) const {
  for (const Span& span : spans) {
    run_from(step + 1, text.substr(span.begin, span.end - span.begin), is_first && span.begin == 0, session,
             sink);
  }
}

std::vector<PreTokenizer::Span> PreTokenizer::spans_of_text(std::string_view text, std::string_view wanted) {
  std::vector<Span> spans;
  std::size_t done = 0;
  for (std::size_t at; (at = text.find(wanted, done)) != std::string_view::npos; done = at + wanted.size()) {
    if (at > done) spans.push_back({done, at, false});
    spans.push_back({at, at + wanted.size(), true});
  }
  if (done < text.size()) spans.push_back({done, text.size(), false});
  return spans;
}

// Joins or drops spans according to `behavior`. The is_match flags of the result are meaningless.
std::vector<PreTokenizer::Span> PreTokenizer::fold(const std::vector<Span>& spans, SplitBehavior behavior) {
  std::vector<Span> out;
  bool was_match = false;
  const auto add = [&](const Span& span, bool joins) {
    if (!joins || out.empty()) {
      out.push_back(span);
    } else {
      out.back().begin = std::min(out.back().begin, span.begin);
      out.back().end = std::max(out.back().end, span.end);
    }
    was_match = span.is_match;
  };
  switch (behavior) {
    case SplitBehavior::kIsolated:
      return spans;
    case SplitBehavior::kRemoved:
      std::copy_if(spans.begin(), spans.end(), std::back_inserter(out),
                   [](const Span& span) { return !span.is_match; });
      break;
    case SplitBehavior::kContiguous:
      for (const Span& span : spans) add(span, span.is_match == was_match);
      break;
    case SplitBehavior::kMergedWithPrevious:
      for (const Span& span : spans) add(span, span.is_match && !was_match);
      break;
    case SplitBehavior::kMergedWithNext:
      for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
        add(*span, span->is_match && !was_match);
      }
      std::reverse(out.begin(), out.end());
      break;
  }
  return out;
}

}  // namespace reprise::models
