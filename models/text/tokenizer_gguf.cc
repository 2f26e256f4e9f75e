#include "models/text/tokenizer_gguf.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "models/files/load_error.h"
#include "models/text/regex.h"
#include "models/text/word_scanner.h"

namespace reprise::models {
namespace {

// Tokens that end a turn or are fill-in-the-middle marks; some files mark them as normal by mistake.
constexpr std::array<std::string_view, 24> kControlTexts = {
    "<|eot_id|>",         "<|im_end|>",     "<|end|>",        "<end_of_turn>", "<|endoftext|>",
    "<|end_of_text|>",    "<EOT>",          "_<EOT>",         "[EOT]",         "<｜end▁of▁sentence｜>",
    "<end_of_utterance>", "<|eom_id|>",     "<|fim_prefix|>", "<fim-prefix>",  "<fim_prefix>",
    "<｜fim▁begin｜>",    "<|fim_suffix|>", "<fim-suffix>",   "<fim_suffix>",  "<｜fim▁hole｜>",
    "<|fim_middle|>",     "<fim-middle>",   "<fim_middle>",   "<｜fim▁end｜>"};

std::string quoted(std::string_view before, std::string_view name, std::string_view after) {
  std::string out(before);
  return out.append(" '").append(name).append("' ").append(after);
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

// Phi-3's special tokens swallow the white space after them, but its files do not say so.
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
  if (id < 0 || id > 0x7FFFFFFF) return fallback;  // 2^32 - 1 means none
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

// Unescapes RWKV's vocabulary, written like Python bytes: \t, \n, \r, \xff, and an escaped backslash.
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
  spec.model = TokenizerModel::kMaxMatch;
  for (std::string& token : spec.tokens) token = unescape(token);
}

// -- pre-tokenizers by name

// Cased letters past ASCII in DeepSeek's first pattern.
constexpr std::string_view kDeepSeekLetters =
    R"(\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77})"
    R"(\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D})"
    R"(\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC})"
    R"(\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC})"
    R"(\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D})"
    R"(\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE})"
    R"(\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A})"
    R"(\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2})"
    R"(\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})";

constexpr std::string_view kDeepSeekScripts = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view kHanAndKana = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";

constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Llama 3's pattern with one alternative changed.
constexpr std::string_view kContractions = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))";
constexpr std::string_view kWord = R"(|[^\r\n\p{L}\p{N}]?\p{L}+)";
constexpr std::string_view kSpaces = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Upper-case, then lower-case letters: the first needs a lower-case one, the second an upper-case one.
constexpr std::string_view kCapitalized =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)";
constexpr std::string_view kCapitals =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)";

// `ending` may follow a word, `digits` matches numbers, `after` may follow a run of symbols.
std::string cased_words(std::string_view ending, std::string_view digits, std::string_view after) {
  return join(
      {kCapitalized, ending, "|", kCapitals, ending, "|", digits, R"(| ?[^\s\p{L}\p{N}]+)", after, kSpaces});
}

std::string gpt4o() {
  return cased_words(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)", R"(\p{N}{1,3})", R"([\r\n/]*)");
}

std::string kimi() {
  constexpr std::string_view kUpper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]])";
  constexpr std::string_view kLower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]])";
  constexpr std::string_view kLead = R"(|[^\r\n\p{L}\p{N}]?)";
  return join({R"([\p{Han}]+)", kLead, kUpper, "*", kLower, "+", kContractions, "?", kLead, kUpper, "+",
               kLower, "*", kContractions, R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)", kSpaces});
}

std::string gpt2() {
  WordPattern pattern;
  pattern.family = WordPattern::Family::kGpt2;
  return regex(pattern);
}

std::string llama3(int max_digits, bool marks_are_letters = false) {
  WordPattern pattern;
  pattern.max_digits = max_digits;
  pattern.marks_are_letters = marks_are_letters;
  return regex(pattern);
}

NamedPreTokenizer split(const std::vector<std::string>& patterns, bool ignore_merges = false) {
  NamedPreTokenizer out;
  out.ignore_merges = ignore_merges;
  for (const std::string& pattern : patterns) out.steps.emplace_back().pattern = pattern;
  return out;
}

constexpr bool kIgnoreMerges = true;

}  // namespace

std::optional<NamedPreTokenizer> find_pre_tokenizer(std::string_view name) {
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };

  if (is({"gpt-2", "phi-2", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de", "jina-v2-code",
          "roberta-bpe", "modern-bert", "gigachat", "a.x-4.0", "mellum", "mpt", "olmo", "jais", "trillion",
          "granite-docling", "exaone4"})) {
    return split({gpt2()});
  }
  if (is({"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"})) {
    return split({R"(\p{N})", gpt2()});
  }
  if (is({"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
          "jina-v5-nano"})) {
    return split({llama3(3)}, kIgnoreMerges);
  }
  if (is({"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"})) return split({llama3(3)});
  if (is({"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open",
          "grok-2"})) {
    return split({llama3(1)});
  }
  if (is({"qwen35"})) return split({llama3(1, /*marks_are_letters=*/true)});
  if (is({"minicpm5"})) return split({R"(\p{N}{1,3})", llama3(0)}, kIgnoreMerges);
  if (is({"laguna"})) return split({R"([^\n]+|[\n]+)", llama3(1)});
  if (is({"falcon"})) return split({R"([\p{P}\$\+<=>\^~\|`]+)", gpt2(), "[0-9][0-9][0-9]"});
  if (is({"default"})) {
    return split({R"([\p{P}\$\+<=>\^~\|]+)", gpt2(), R"(\p{N}+)", "[0-9][0-9][0-9]"});
  }
  if (is({"deepseek-llm"})) {
    return split({R"([\r\n])", join({R"(\s?[A-Za-z)", kDeepSeekLetters, "]+"}),
                  R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
                  R"(\s+$)", std::string(kDeepSeekScripts), R"(\p{N}+)"});
  }
  if (is({"deepseek-coder"})) {
    return split({R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", std::string(kDeepSeekScripts), R"(\p{N})"});
  }
  if (is({"deepseek-v3", "hunyuan-dense", "joyai-llm"})) {
    return split({R"(\p{N}{1,3})", std::string(kHanAndKana), std::string(kDeepSeek3)});
  }
  if (is({"poro-chat", "bloom", "gpt3-finnish", "viking"})) {
    NamedPreTokenizer words =
        split({R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)"});
    if (name == "viking") words.steps.emplace_back().pattern = R"(\p{N})";
    return words;
  }
  if (is({"tekken"})) return split({cased_words("", R"(\p{N})", R"([\r\n/]*)")}, kIgnoreMerges);
  if (is({"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"})) return split({gpt4o()});
  if (is({"youtu"})) {
    return split(
        {R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
         cased_words(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)", R"(\p{N})", R"([\r\n/]*)")},
        kIgnoreMerges);
  }
  if (is({"kimi-k2"})) return split({kimi()});
  if (is({"bailingmoe", "bailingmoe2", "llada-moe"})) {
    return split({R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
                  R"(|\s*[\r\n]|\s+(?!\S)|\s+)"});
  }
  if (is({"seed-coder"})) {
    return split({join({kContractions, kWord, R"(|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+)", kSpaces})});
  }
  if (is({"jais-2"})) {
    return split(
        {join({kContractions, kWord, R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)",
               R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S))",
               R"(|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"})});
  }
  if (is({"exaone-moe"})) {
    return split({join({kContractions, R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+)",
                        R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"})});
  }
  if (is({"chameleon"})) {
    return split({"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", R"(([\t\n]|    |  ))",
                  R"(\p{N})", R"([\p{P}!-/:-@\[-`{-~])", gpt2()});
  }
  return std::nullopt;
}

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
  // Byte-level BPE drops bytes without a token, even if the file names an unknown token.
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
