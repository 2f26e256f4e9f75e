#include "models/text/tokenizer_gguf.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "models/files/load_error.h"
#include "models/text/pre_tokenizer_names.h"

namespace reprise::models {
namespace {

// Tokens that end a turn or frame a gap to fill in. Some files call them normal tokens by mistake.
constexpr std::array<std::string_view, 24> kControlTexts = {
    "<|eot_id|>",         "<|im_end|>",     "<|end|>",        "<end_of_turn>", "<|endoftext|>",
    "<|end_of_text|>",    "<EOT>",          "_<EOT>",         "[EOT]",         "<｜end▁of▁sentence｜>",
    "<end_of_utterance>", "<|eom_id|>",     "<|fim_prefix|>", "<fim-prefix>",  "<fim_prefix>",
    "<｜fim▁begin｜>",    "<|fim_suffix|>", "<fim-suffix>",   "<fim_suffix>",  "<｜fim▁hole｜>",
    "<|fim_middle|>",     "<fim-middle>",   "<fim_middle>",   "<｜fim▁end｜>"};

std::string quoted(std::string_view before, std::string_view name, std::string_view behind) {
  std::string out(before);
  return out.append(" '").append(name).append("' ").append(behind);
}

void read_tokens(const GgufMetadata& metadata, TokenizerSpec& spec) {
  const auto& tokens = metadata.strings("tokenizer.ggml.tokens");
  spec.tokens.assign(tokens.begin(), tokens.end());
  spec.types.assign(tokens.size(), TokenType::kNormal);
  if (metadata.has("tokenizer.ggml.token_type")) {
    const std::vector<std::int64_t> types = metadata.integers("tokenizer.ggml.token_type");
    if (types.size() < tokens.size()) {
      throw LoadError(metadata.file(), "tokenizer.ggml.token_type", "fewer types than tokens");
    }
    std::transform(types.begin(), types.begin() + static_cast<std::ptrdiff_t>(tokens.size()),
                   spec.types.begin(), token_type_numbered);
  }
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    const bool is_control =
        std::find(kControlTexts.begin(), kControlTexts.end(), spec.tokens[id]) != kControlTexts.end();
    if (spec.types[id] == TokenType::kNormal && is_control) spec.types[id] = TokenType::kControl;
  }
}

// Phi-3's special tokens swallow the white space behind them, which its files do not say.
bool is_phi3(const GgufMetadata& metadata) {
  std::string name(metadata.text_or("general.name", ""));
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos;
}

void add_special(const GgufMetadata& metadata, TokenizerSpec& spec) {
  const bool strips = is_phi3(metadata);
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenType type = spec.types[id];
    const bool is_user_defined = type == TokenType::kUserDefined;
    if (!is_user_defined && type != TokenType::kControl && type != TokenType::kUnknown) continue;
    AddedToken token;
    token.id = static_cast<TokenId>(id);
    token.content = spec.tokens[id];
    token.special = !is_user_defined;
    token.rstrip =
        strips && token.content != "<unk>" && token.content != "<s>" && token.content != "<|endoftext|>";
    spec.added.push_back(std::move(token));
  }
}

std::optional<TokenId> token_id(const GgufMetadata& metadata, std::string_view key,
                                std::optional<TokenId> fallback = std::nullopt) {
  if (!metadata.has(key)) return fallback;
  const std::int64_t id = metadata.integer(key);
  if (id < 0 || id > 0x7FFFFFFF) return fallback;  // 2^32 - 1 is written for "none"
  return static_cast<TokenId>(id);
}

void read_merges(const GgufMetadata& metadata, TokenizerSpec& spec) {
  for (const std::string_view merge : metadata.strings("tokenizer.ggml.merges")) {
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) continue;
    spec.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
}

void read_bpe(const GgufMetadata& metadata, TokenizerSpec& spec) {
  const std::string name(metadata.text_or("tokenizer.ggml.pre", "default"));
  std::optional<NamedPreTokenizer> named = find_pre_tokenizer(name);
  if (!named) {
    throw LoadError(metadata.file(), "tokenizer.ggml.pre", quoted("the pre-tokenizer", name, "is not known"));
  }
  spec.model = TokenizerModel::kBpe;
  spec.pre_tokenizer = std::move(named->steps);
  spec.ignore_merges = named->ignore_merges;
  spec.byte_level = true;
  spec.lenient_merges = true;
  spec.decoder.alphabet = DecoderSpec::Alphabet::kByteLevel;
  if (metadata.has("tokenizer.ggml.merges") || name != "kimi-k2") read_merges(metadata, spec);
}

void read_spm(const GgufMetadata& metadata, TokenizerSpec& spec) {
  spec.model = TokenizerModel::kSpm;
  spec.scores = metadata.has("tokenizer.ggml.scores") ? metadata.numbers("tokenizer.ggml.scores")
                                                      : std::vector<float>(spec.tokens.size());
  spec.byte_fallback = true;
  const bool has_prefix = metadata.boolean_or("tokenizer.ggml.add_space_prefix", true);
  if (has_prefix) {
    NormalizerStep& prepend = spec.normalizer.emplace_back();
    prepend.kind = NormalizerStep::Kind::kPrepend;
    prepend.content = std::string(kSpaceMark);
  }
  NormalizerStep& escape = spec.normalizer.emplace_back();
  escape.kind = NormalizerStep::Kind::kReplaceText;
  escape.pattern = std::string(1, ' ');
  escape.content = std::string(kSpaceMark);
  spec.decoder.replacements.emplace_back(kSpaceMark, " ");
  spec.decoder.byte_tokens = true;
  spec.decoder.strip_leading_spaces = has_prefix ? 1 : 0;
}

void read_word_piece(const GgufMetadata& metadata, TokenizerSpec& spec) {
  spec.model = TokenizerModel::kWordPiece;
  spec.lower_case = metadata.boolean_or("tokenizer.ggml.normalizer.lowercase", true);
  spec.decoder.replacements.emplace_back(kSpaceMark, " ");
  spec.decoder.strip_leading_spaces = 1;
}

// RWKV's vocabulary is written like Python's bytes: \t, \n, \r, \xff, and a backslash before itself.
std::string unescape(std::string_view text) {
  const auto hex = [](char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; };
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\' || at + 1 == text.size()) {
      out += text[at];
      continue;
    }
    switch (const char letter = text[++at]) {
      case 't':
        out += '\t';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 'x':
        if (at + 2 >= text.size()) return out;
        out += static_cast<char>(hex(text[at + 1]) * 16 + hex(text[at + 2]));
        at += 2;
        break;
      default:
        out += letter;
    }
  }
  return out;
}

void read_rwkv(TokenizerSpec& spec) {
  spec.model = TokenizerModel::kLongestMatch;
  for (std::string& token : spec.tokens) token = unescape(token);
}

}  // namespace

TokenizerSpec spec_of_gguf(const GgufMetadata& metadata) {
  TokenizerSpec spec;
  spec.source = metadata.file();
  const std::string model(metadata.text("tokenizer.ggml.model"));
  const bool is_spm = model == "llama";
  if (model == "none" || model == "no_vocab") {
    throw LoadError(metadata.file(), "tokenizer.ggml.model", "the model has no tokenizer");
  }
  if (model != "gpt2" && model != "rwkv" && model != "bert" && !is_spm) {
    throw LoadError(metadata.file(), "tokenizer.ggml.model",
                    quoted("the tokenizer", model, "is not supported"));
  }
  read_tokens(metadata, spec);
  add_special(metadata, spec);
  if (is_spm) {
    read_spm(metadata, spec);
  } else if (model == "gpt2") {
    read_bpe(metadata, spec);
  } else if (model == "bert") {
    read_word_piece(metadata, spec);
  } else {
    read_rwkv(spec);
  }
  const auto spm_default = [&](TokenId id) { return is_spm ? std::optional(id) : std::nullopt; };
  // Byte-level BPE drops what it has no token for, whatever the file calls unknown.
  if (model != "gpt2") {
    spec.unk = token_id(metadata, "tokenizer.ggml.unknown_token_id",
                        model == "bert" ? std::optional<TokenId>(100) : spm_default(0));
  }
  spec.bos = token_id(metadata, "tokenizer.ggml.bos_token_id", spm_default(1));
  spec.eos = token_id(metadata, "tokenizer.ggml.eos_token_id", spm_default(2));
  spec.pad = token_id(metadata, "tokenizer.ggml.padding_token_id");
  spec.add_bos = metadata.boolean_or("tokenizer.ggml.add_bos_token", is_spm);
  spec.add_eos = metadata.boolean_or("tokenizer.ggml.add_eos_token", false);
  return spec;
}

}  // namespace reprise::models
