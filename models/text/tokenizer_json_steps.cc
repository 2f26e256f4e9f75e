// The parts of tokenizer.json that are lists of steps: normalizer, pre-tokenizer, decoder.
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "models/text/tokenizer_json.h"
#include "models/text/word_scanner.h"

namespace reprise::models {
namespace {

constexpr int kDeepestSequence = 8;

[[noreturn]] void refuse_step(const JsonPlace& step, std::string_view what) {
  step.fail(std::string(what) + " '" + step.text_or("type", "?") + "' is not supported");
}

// Calls `visit` with `step`, or with each of its parts if it is a Sequence.
void for_each_step(const JsonPlace& step, std::string_view list, int depth,
                   const std::function<void(const JsonPlace&)>& visit) {
  if (step.at("type").text() != "Sequence") return visit(step);
  if (depth == kDeepestSequence) step.fail("sequences nested too deeply");
  const JsonPlace parts = step.at(list);
  for (std::size_t i = 0; i < parts.size(); ++i) for_each_step(parts.at(i), list, depth + 1, visit);
}

struct Pattern {
  std::string text;
  bool is_regex = false;
};

Pattern pattern_of(const JsonPlace& step) {
  const JsonPlace pattern = step.at("pattern");
  if (const auto text = pattern.find("String")) return {text->text(), false};
  return {pattern.at("Regex").text(), true};
}

SplitBehavior behavior_of(const JsonPlace& step, std::string_view fallback) {
  const std::string name = step.text_or("behavior", fallback);
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  step.fail("behavior '" + name + "' is not supported");
}

PreTokenizerStep::Prepend prepend_of(const JsonPlace& metaspace) {
  const bool adds = metaspace.boolean_or("add_prefix_space", true);
  const std::string scheme = metaspace.text_or("prepend_scheme", adds ? "always" : "never");
  if (scheme == "always") return PreTokenizerStep::Prepend::kAlways;
  if (scheme == "first") return PreTokenizerStep::Prepend::kFirst;
  if (scheme == "never") return PreTokenizerStep::Prepend::kNever;
  metaspace.fail("prepend_scheme '" + scheme + "' is not supported");
}

NormalizerStep normalizer_step(const JsonPlace& step) {
  const std::string type = step.at("type").text();
  NormalizerStep out;
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    out.form = type == "NFC"    ? NormalForm::kNfc
               : type == "NFD"  ? NormalForm::kNfd
               : type == "NFKC" ? NormalForm::kNfkc
                                : NormalForm::kNfkd;
  } else if (type == "Prepend") {
    out.kind = NormalizerStep::Kind::kPrepend;
    out.content = step.at("prepend").text();
  } else if (type == "Replace") {
    Pattern pattern = pattern_of(step);
    out.kind = pattern.is_regex ? NormalizerStep::Kind::kReplaceRegex : NormalizerStep::Kind::kReplaceText;
    out.pattern = std::move(pattern.text);
    out.content = step.at("content").text();
  } else if (type == "Strip") {
    out.kind = NormalizerStep::Kind::kStrip;
    out.strip_left = step.boolean_or("strip_left", true);
    out.strip_right = step.boolean_or("strip_right", true);
  } else {
    refuse_step(step, "the normalizer");
  }
  return out;
}

PreTokenizerStep split_by(std::string regex, SplitBehavior behavior, bool invert = false) {
  PreTokenizerStep out;
  out.pattern = std::move(regex);
  out.behavior = behavior;
  out.invert = invert;
  return out;
}

PreTokenizerStep split_by_text(std::string text, SplitBehavior behavior, bool invert = false) {
  PreTokenizerStep out = split_by(std::move(text), behavior, invert);
  out.kind = PreTokenizerStep::Kind::kSplitText;
  return out;
}

void add_byte_level(const JsonPlace& step, std::vector<PreTokenizerStep>& out) {
  if (step.boolean_or("add_prefix_space", true)) {
    out.emplace_back().kind = PreTokenizerStep::Kind::kPrefixSpace;
  }
  if (step.boolean_or("use_regex", true)) {
    WordPattern gpt2;
    gpt2.family = WordPattern::Family::kGpt2;
    out.push_back(split_by(regex(gpt2), SplitBehavior::kIsolated));
  }
  out.emplace_back().kind = PreTokenizerStep::Kind::kByteLevel;
}

void add_pre_tokenizer_step(const JsonPlace& step, std::vector<PreTokenizerStep>& out) {
  const std::string type = step.at("type").text();
  if (type == "Split") {
    Pattern pattern = pattern_of(step);
    const auto make = pattern.is_regex ? split_by : split_by_text;
    out.push_back(make(std::move(pattern.text), behavior_of(step, "?"), step.boolean_or("invert", false)));
  } else if (type == "ByteLevel") {
    add_byte_level(step, out);
  } else if (type == "Digits") {
    const bool is_single = step.boolean_or("individual_digits", false);
    out.push_back(split_by(is_single ? R"(\p{N})" : R"(\p{N}+)", SplitBehavior::kIsolated));
  } else if (type == "Punctuation") {
    out.push_back(split_by(R"([\p{P}$+<=>^`|~])", behavior_of(step, "Isolated")));
  } else if (type == "Metaspace") {
    PreTokenizerStep& metaspace = out.emplace_back();
    metaspace.kind = PreTokenizerStep::Kind::kMetaspace;
    metaspace.replacement = step.text_or("replacement", kSpaceMark);
    metaspace.prepend = prepend_of(step);
    metaspace.split = step.boolean_or("split", true);
  } else if (type == "Whitespace") {
    out.push_back(split_by(R"(\w+|[^\w\s]+)", SplitBehavior::kRemoved, /*invert=*/true));
  } else if (type == "WhitespaceSplit") {
    out.push_back(split_by(R"(\s)", SplitBehavior::kRemoved));
  } else if (type == "CharDelimiterSplit") {
    out.push_back(split_by_text(step.at("delimiter").text(), SplitBehavior::kRemoved));
  } else {
    refuse_step(step, "the pre-tokenizer");
  }
}

void add_decoder_step(const JsonPlace& step, bool& is_fused, DecoderSpec& out) {
  const std::string type = step.at("type").text();
  if (type == "ByteLevel") {
    out.alphabet = DecoderSpec::Alphabet::kByteLevel;
  } else if (type == "Metaspace") {
    out.replacements.emplace_back(step.text_or("replacement", kSpaceMark), " ");
    out.strip_first_token = prepend_of(step) != PreTokenizerStep::Prepend::kNever;
  } else if (type == "Replace") {
    Pattern pattern = pattern_of(step);
    if (pattern.is_regex) step.fail("a decoder with a regular expression is not supported");
    out.replacements.emplace_back(std::move(pattern.text), step.at("content").text());
  } else if (type == "ByteFallback") {
    out.byte_tokens = true;
  } else if (type == "Fuse") {
    is_fused = true;
  } else if (type == "Strip") {
    const std::int64_t start = step.integer_or("start", 0);
    if (step.text_or("content", " ") != " " || step.integer_or("stop", 0) != 0 || start < 0 || !is_fused) {
      step.fail("a Strip decoder is supported only for spaces at the start of fused text");
    }
    out.strip_leading_spaces = static_cast<std::size_t>(start);
  } else {
    refuse_step(step, "the decoder");
  }
}

}  // namespace

std::vector<NormalizerStep> normalizer_of_json(const JsonPlace& normalizer) {
  std::vector<NormalizerStep> steps;
  for_each_step(normalizer, "normalizers", 0,
                [&](const JsonPlace& step) { steps.push_back(normalizer_step(step)); });
  return steps;
}

std::vector<PreTokenizerStep> pre_tokenizer_of_json(const JsonPlace& pre_tokenizer) {
  std::vector<PreTokenizerStep> steps;
  for_each_step(pre_tokenizer, "pretokenizers", 0,
                [&](const JsonPlace& step) { add_pre_tokenizer_step(step, steps); });
  return steps;
}

DecoderSpec decoder_of_json(const JsonPlace& decoder) {
  DecoderSpec spec;
  bool is_fused = false;
  for_each_step(decoder, "decoders", 0,
                [&](const JsonPlace& step) { add_decoder_step(step, is_fused, spec); });
  return spec;
}

}  // namespace reprise::models
