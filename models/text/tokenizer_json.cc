#include "models/text/tokenizer_json.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace reprise::models {
namespace {

constexpr std::int64_t kIdLimit = 1 << 22;

using IdOfText = std::unordered_map<std::string_view, TokenId>;  // looks into spec.tokens and spec.added

TokenId id_of(const JsonPlace& value) {
  const std::int64_t id = value.integer();
  if (id < 0 || id >= kIdLimit) value.fail("a token id that is not between 0 and 4194303");
  return static_cast<TokenId>(id);
}

std::vector<std::string> tokens_of(const JsonPlace& vocab) {
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < vocab.size(); ++i) {
    const std::string& text = vocab.key_at(i);
    const JsonPlace value = vocab.value_at(i);
    const auto id = static_cast<std::size_t>(id_of(value));
    if (id >= tokens.size()) tokens.resize(id + 1);
    if (!tokens[id].empty()) value.fail("two tokens with one id");
    tokens[id] = text;
  }
  return tokens;
}

std::vector<std::pair<std::string, std::string>> merges_of(const JsonPlace& merges) {
  std::vector<std::pair<std::string, std::string>> out;
  out.reserve(merges.size());
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const JsonPlace merge = merges.at(i);
    if (merge.is(JsonPlace::Kind::kArray)) {
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

// "vocab": [[text, logarithm of its probability], ...]
void read_unigram(const JsonPlace& model, TokenizerSpec& spec) {
  spec.model = TokenizerModel::kUnigram;
  const JsonPlace vocab = model.at("vocab");
  if (static_cast<std::int64_t>(vocab.size()) > kIdLimit) vocab.fail("more than 4194304 tokens");
  for (std::size_t i = 0; i < vocab.size(); ++i) {
    const JsonPlace entry = vocab.at(i);
    if (entry.size() != 2) entry.fail("a token without a probability");
    spec.tokens.push_back(entry.at(std::size_t{0}).text());
    spec.log_probs.push_back(entry.at(std::size_t{1}).number());
  }
  if (const auto unk = model.find("unk_id")) spec.unk = id_of(*unk);
  spec.byte_fallback = model.boolean_or("byte_fallback", false);
}

void read_model(const JsonPlace& model, TokenizerSpec& spec) {
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

AddedToken added_token(const JsonPlace& value, TokenId id) {
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

// Of the added tokens, those that the model has get its id.
void read_added(const JsonPlace& list, TokenizerSpec& spec) {
  IdOfText own;
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) own[spec.tokens[id]] = static_cast<TokenId>(id);
  for (std::size_t i = 0; i < list.size(); ++i) {
    AddedToken token = added_token(list.at(i), id_of(list.at(i).at("id")));
    if (token.content.empty()) continue;
    if (const auto found = own.find(token.content); found != own.end()) token.id = found->second;
    spec.added.push_back(std::move(token));
  }
}

// tokenizer_config.json may have added tokens that tokenizer.json lacks.
void read_added_from_config(const JsonPlace& decoder, TokenizerSpec& spec) {
  std::unordered_set<std::string> contents;
  std::unordered_set<TokenId> ids;
  for (const AddedToken& token : spec.added) {
    contents.insert(token.content);
    ids.insert(token.id);
  }
  for (std::size_t i = 0; i < decoder.size(); ++i) {
    const std::string& key = decoder.key_at(i);
    const JsonPlace value = decoder.value_at(i);
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

// "bos_token": a string, or an object that has it as its content.
std::optional<TokenId> named_token(const JsonPlace& config, std::string_view key, const TokenizerSpec& spec) {
  const std::optional<JsonPlace> value = config.find(key);
  if (!value) return std::nullopt;
  return find_token(spec,
                    value->is(JsonPlace::Kind::kObject) ? value->text_or("content", "") : value->text());
}

// A template that puts special tokens around the text says which ones.
void read_post_processor(const JsonPlace& processor, int depth, TokenizerSpec& spec) {
  const std::string type = processor.text_or("type", "");
  if (type == "Sequence" && depth < 8) {
    const JsonPlace parts = processor.at("processors");
    for (std::size_t i = 0; i < parts.size(); ++i) read_post_processor(parts.at(i), depth + 1, spec);
  }
  if (type != "TemplateProcessing") return;
  const std::optional<JsonPlace> single = processor.find("single");
  if (!single || single->size() == 0) return;
  const auto special = [&](const JsonPlace& item) -> std::optional<TokenId> {
    const std::optional<JsonPlace> token = item.find("SpecialToken");
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

}  // namespace

void add_tokenizer_config(const JsonPlace& config, TokenizerSpec& spec) {
  if (const auto decoder = config.find("added_tokens_decoder")) read_added_from_config(*decoder, spec);
  if (const auto id = named_token(config, "bos_token", spec)) spec.bos = id;
  if (const auto id = named_token(config, "eos_token", spec)) spec.eos = id;
  if (const auto id = named_token(config, "pad_token", spec)) spec.pad = id;
  spec.add_bos = config.boolean_or("add_bos_token", spec.add_bos);
  spec.add_eos = config.boolean_or("add_eos_token", spec.add_eos);
}

TokenizerSpec spec_of_json(const JsonPlace& tokenizer, const std::optional<JsonPlace>& config) {
  TokenizerSpec spec;
  spec.source = tokenizer.file();
  const JsonPlace model = tokenizer.at("model");
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
