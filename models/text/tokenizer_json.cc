#include "models/text/tokenizer_json.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "models/text/word_scanner.h"

namespace reprise::models {
namespace {

constexpr std::int64_t kIdLimit = 1 << 22;

using IdOfText = std::unordered_map<std::string_view, TokenId>;  // keys point into spec.tokens and spec.added

TokenId id_of(const JsonLocation& value) {
  const std::int64_t id = value.integer();
  if (id < 0 || id >= kIdLimit) value.fail("a token id that is not between 0 and 4194303");
  return static_cast<TokenId>(id);
}

std::vector<std::string> tokens_of(const JsonLocation& vocab) {
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < vocab.size(); ++i) {
    const std::string& text = vocab.key_at(i);
    const JsonLocation value = vocab.value_at(i);
    const auto id = static_cast<std::size_t>(id_of(value));
    if (id >= tokens.size()) tokens.resize(id + 1);
    if (!tokens[id].empty()) value.fail("two tokens with one id");
    tokens[id] = text;
  }
  return tokens;
}

std::vector<std::pair<std::string, std::string>> merges_of(const JsonLocation& merges) {
  std::vector<std::pair<std::string, std::string>> out;
  out.reserve(merges.size());
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const JsonLocation merge = merges.at(i);
    if (merge.is(JsonLocation::Kind::kArray)) {
      if (merge.size() != 2) merge.fail("a merge that is not of two tokens");
      out.emplace_back(merge.at(std::size_t{0}).text(), merge.at(std::size_t{1}).text());
      continue;
    }
    const std::string& text = merge.text();
    if (text.starts_with("#version")) continue;
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      merge.fail("a merge that is not of two tokens");
    }
    out.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return out;
}

// "vocab": [[text, log probability], ...]
void read_unigram(const JsonLocation& model, TokenizerSpec& spec) {
  spec.model = TokenizerModel::kUnigram;
  const JsonLocation vocab = model.at("vocab");
  if (static_cast<std::int64_t>(vocab.size()) > kIdLimit) vocab.fail("more than 4194304 tokens");
  for (std::size_t i = 0; i < vocab.size(); ++i) {
    const JsonLocation entry = vocab.at(i);
    if (entry.size() != 2) entry.fail("a token without a probability");
    spec.tokens.push_back(entry.at(std::size_t{0}).text());
    spec.log_probs.push_back(entry.at(std::size_t{1}).number());
  }
  if (const auto unk = model.find("unk_id")) spec.unk = id_of(*unk);
  spec.byte_fallback = model.boolean_or("byte_fallback", false);
}

void read_model(const JsonLocation& model, TokenizerSpec& spec) {
  const std::string type = model.text_or("type", "BPE");
  if (type == "Unigram") return read_unigram(model, spec);
  if (type != "BPE") model.fail("the model '" + type + "' is not supported");
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.text_or(affix, "").empty()) model.fail(std::string(affix) + " is not supported");
  }
  spec.model = TokenizerModel::kBpe;
  spec.tokens = tokens_of(model.at("vocab"));
  spec.merges = merges_of(model.at("merges"));
  spec.byte_fallback = model.boolean_or("byte_fallback", false);
  spec.ignore_merges = model.boolean_or("ignore_merges", false);
  spec.fuse_unk = model.boolean_or("fuse_unk", false);
}

AddedToken added_token(const JsonLocation& value, TokenId id) {
  AddedToken token;
  token.id = id;
  token.content = value.at("content").text();
  token.special = value.boolean_or("special", false);
  token.normalized = value.boolean_or("normalized", !token.special);
  token.lstrip = value.boolean_or("lstrip", false);
  token.rstrip = value.boolean_or("rstrip", false);
  token.single_word = value.boolean_or("single_word", false);
  return token;
}

// Reads added tokens; those that the model's vocabulary has get its id.
void read_added(const JsonLocation& list, TokenizerSpec& spec) {
  IdOfText own;
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) own[spec.tokens[id]] = static_cast<TokenId>(id);
  for (std::size_t i = 0; i < list.size(); ++i) {
    AddedToken token = added_token(list.at(i), id_of(list.at(i).at("id")));
    if (token.content.empty()) continue;
    if (const auto found = own.find(token.content); found != own.end()) token.id = found->second;
    spec.added.push_back(std::move(token));
  }
}

void read_added_from_config(const JsonLocation& decoder, TokenizerSpec& spec) {
  std::unordered_set<std::string> contents;
  std::unordered_set<TokenId> ids;
  for (const AddedToken& token : spec.added) {
    contents.insert(token.content);
    ids.insert(token.id);
  }
  for (std::size_t i = 0; i < decoder.size(); ++i) {
    const std::string& key = decoder.key_at(i);
    const JsonLocation value = decoder.value_at(i);
    if (key.empty() || key.size() > 7 ||
        !std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      value.fail("the key is no token id");
    }
    AddedToken token = added_token(value, static_cast<TokenId>(std::stol(key)));
    if (contents.contains(token.content) || ids.contains(token.id) || token.content.empty()) continue;
    spec.added.push_back(std::move(token));
  }
}

std::optional<TokenId> find_token(const TokenizerSpec& spec, std::string_view text) {
  if (text.empty()) return std::nullopt;
  for (const AddedToken& token : spec.added) {
    if (token.content == text) return token.id;
  }
  const auto found = std::find(spec.tokens.begin(), spec.tokens.end(), text);
  if (found == spec.tokens.end()) return std::nullopt;
  return static_cast<TokenId>(found - spec.tokens.begin());
}

// Reads a token such as "bos_token": a string, or an object with a "content".
std::optional<TokenId> named_token(const JsonLocation& config, std::string_view key,
                                   const TokenizerSpec& spec) {
  const std::optional<JsonLocation> value = config.find(key);
  if (!value) return std::nullopt;
  return find_token(spec,
                    value->is(JsonLocation::Kind::kObject) ? value->text_or("content", "") : value->text());
}

// Reads from a template which special tokens surround the text.
void read_post_processor(const JsonLocation& processor, int depth, TokenizerSpec& spec) {
  const std::string type = processor.text_or("type", "");
  if (type == "Sequence" && depth < 8) {
    const JsonLocation parts = processor.at("processors");
    for (std::size_t i = 0; i < parts.size(); ++i) read_post_processor(parts.at(i), depth + 1, spec);
  }
  if (type != "TemplateProcessing") return;
  const std::optional<JsonLocation> single = processor.find("single");
  if (!single || single->size() == 0) return;
  const auto special = [&](const JsonLocation& item) -> std::optional<TokenId> {
    const std::optional<JsonLocation> token = item.find("SpecialToken");
    return token ? find_token(spec, token->text_or("id", "")) : std::nullopt;
  };
  if (const auto first = special(single->at(std::size_t{0}))) {
    spec.bos = first;
    spec.add_bos = true;
  }
  if (const auto last = special(single->at(single->size() - 1)); last && single->size() > 1) {
    spec.eos = last;
    spec.add_eos = true;
  }
}

// -- normalizer, pre-tokenizer and decoder: lists of steps

constexpr int kMaxSequenceDepth = 8;

[[noreturn]] void refuse_step(const JsonLocation& step, std::string_view what) {
  step.fail(std::string(what) + " '" + step.text_or("type", "?") + "' is not supported");
}

// Calls `visit` with `step`, or with each of its parts if it is a Sequence.
void for_each_step(const JsonLocation& step, std::string_view list, int depth,
                   const std::function<void(const JsonLocation&)>& visit) {
  if (step.at("type").text() != "Sequence") return visit(step);
  if (depth == kMaxSequenceDepth) step.fail("sequences nested too deeply");
  const JsonLocation parts = step.at(list);
  for (std::size_t i = 0; i < parts.size(); ++i) for_each_step(parts.at(i), list, depth + 1, visit);
}

struct Pattern {
  std::string text;
  bool is_regex = false;
};

Pattern pattern_of(const JsonLocation& step) {
  const JsonLocation pattern = step.at("pattern");
  if (const auto text = pattern.find("String")) return {text->text(), false};
  return {pattern.at("Regex").text(), true};
}

SplitBehavior behavior_of(const JsonLocation& step, std::string_view fallback) {
  const std::string name = step.text_or("behavior", fallback);
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  step.fail("behavior '" + name + "' is not supported");
}

PreTokenizerStep::Prepend prepend_of(const JsonLocation& metaspace) {
  const bool adds = metaspace.boolean_or("add_prefix_space", true);
  const std::string scheme = metaspace.text_or("prepend_scheme", adds ? "always" : "never");
  if (scheme == "always") return PreTokenizerStep::Prepend::kAlways;
  if (scheme == "first") return PreTokenizerStep::Prepend::kFirst;
  if (scheme == "never") return PreTokenizerStep::Prepend::kNever;
  metaspace.fail("prepend_scheme '" + scheme + "' is not supported");
}

NormalizerStep normalizer_step(const JsonLocation& step) {
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

void add_byte_level(const JsonLocation& step, std::vector<PreTokenizerStep>& out) {
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

void add_pre_tokenizer_step(const JsonLocation& step, std::vector<PreTokenizerStep>& out) {
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

void add_decoder_step(const JsonLocation& step, bool& is_fused, DecoderSpec& out) {
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

std::vector<NormalizerStep> normalizer_of_json(const JsonLocation& normalizer) {
  std::vector<NormalizerStep> steps;
  for_each_step(normalizer, "normalizers", 0,
                [&](const JsonLocation& step) { steps.push_back(normalizer_step(step)); });
  return steps;
}

std::vector<PreTokenizerStep> pre_tokenizer_of_json(const JsonLocation& pre_tokenizer) {
  std::vector<PreTokenizerStep> steps;
  for_each_step(pre_tokenizer, "pretokenizers", 0,
                [&](const JsonLocation& step) { add_pre_tokenizer_step(step, steps); });
  return steps;
}

DecoderSpec decoder_of_json(const JsonLocation& decoder) {
  DecoderSpec spec;
  bool is_fused = false;
  for_each_step(decoder, "decoders", 0,
                [&](const JsonLocation& step) { add_decoder_step(step, is_fused, spec); });
  return spec;
}

void add_tokenizer_config(const JsonLocation& config, TokenizerSpec& spec) {
  if (const auto decoder = config.find("added_tokens_decoder")) read_added_from_config(*decoder, spec);
  if (const auto id = named_token(config, "bos_token", spec)) spec.bos = id;
  if (const auto id = named_token(config, "eos_token", spec)) spec.eos = id;
  if (const auto id = named_token(config, "pad_token", spec)) spec.pad = id;
  spec.add_bos = config.boolean_or("add_bos_token", spec.add_bos);
  spec.add_eos = config.boolean_or("add_eos_token", spec.add_eos);
}

TokenizerSpec spec_of_json(const JsonLocation& tokenizer, const std::optional<JsonLocation>& config) {
  TokenizerSpec spec;
  spec.source = tokenizer.file();
  const JsonLocation model = tokenizer.at("model");
  read_model(model, spec);
  if (const auto list = tokenizer.find("added_tokens")) read_added(*list, spec);
  if (!spec.unk) spec.unk = find_token(spec, model.text_or("unk_token", ""));

  if (const auto normalizer = tokenizer.find("normalizer")) spec.normalizer = normalizer_of_json(*normalizer);
  if (const auto steps = tokenizer.find("pre_tokenizer")) spec.pre_tokenizer = pre_tokenizer_of_json(*steps);
  spec.byte_level = std::any_of(
      spec.pre_tokenizer.begin(), spec.pre_tokenizer.end(),
      [](const PreTokenizerStep& step) { return step.kind == PreTokenizerStep::Kind::kByteLevel; });
  if (const auto decoder = tokenizer.find("decoder")) {
    spec.decoder = decoder_of_json(*decoder);
  } else if (spec.byte_level) {
    spec.decoder.alphabet = DecoderSpec::Alphabet::kByteLevel;
  }
  if (const auto processor = tokenizer.find("post_processor")) read_post_processor(*processor, 0, spec);
  if (config) add_tokenizer_config(*config, spec);
  return spec;
}

}  // namespace reprise::models
