#include "models/text/normalizer.h"

#include <utility>

#include "base/utf8.h"
#include "models/files/load_error.h"
#include "models/text/regex.h"
#include "models/text/unicode.h"

namespace reprise::models {
namespace {

using Kind = NormalizerStep::Kind;

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

// Whether the step leaves the text alone, as far as that is quick to see.
bool is_idle(const NormalizerStep& step, std::string_view text) {
  switch (step.kind) {
    case Kind::kForm:
      return is_plainly_normal(text, step.form);
    case Kind::kPrepend:
      return text.empty();
    case Kind::kReplaceText:
      return step.pattern.empty() || text.find(step.pattern) == std::string_view::npos;
    case Kind::kReplaceRegex:
    case Kind::kStrip:
      return false;
  }
  return false;
}

}  // namespace

Normalizer::Normalizer(std::vector<NormalizerStep> steps, std::string_view source) {
  for (NormalizerStep& spec : steps) {
    Step step{std::move(spec), std::nullopt};
    try {
      if (step.spec.kind == Kind::kReplaceRegex) step.regex.emplace(to_pcre2(step.spec.pattern));
    } catch (const RegexError& error) {
      throw LoadError(source, "normalizer", std::string("pattern: ") + error.what());
    }
    steps_.push_back(std::move(step));
  }
}

std::string Normalizer::apply(const Step& step, std::string_view text) {
  const NormalizerStep& spec = step.spec;
  switch (spec.kind) {
    case Kind::kForm:
      return normalize(text, spec.form);
    case Kind::kPrepend:
      return spec.content + std::string(text);
    case Kind::kReplaceText:
      return replace_text(text, spec.pattern, spec.content);
    case Kind::kReplaceRegex:
      return replace_regex(text, *step.regex, spec.content);
    case Kind::kStrip:
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

}  // namespace reprise::models
