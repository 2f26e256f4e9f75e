#include "models/text/sentencepiece_file.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

#include "models/files/load_error.h"
#include "models/text/tokenizer_json.h"

namespace reprise::models {
namespace {

constexpr std::size_t kMaxPieces = std::size_t{1} << 22;

// Iterates over the fields of a protobuf message.
class ProtoFields {
 public:
  struct Field {
    std::uint32_t number = 0;
    std::uint64_t integer = 0;  // varint fields
    float real = 0;             // fixed32 fields
    std::string_view bytes;     // length-delimited fields
  };

  ProtoFields(std::string_view message, const std::string& file) : left_(message), file_(file) {}

  /// Returns false at the end.
  bool next(Field& out) {
    if (left_.empty()) return false;
    const std::uint64_t tag = varint();
    if (tag >> 3 == 0 || tag >> 3 > 0xffff) fail("a field without a number");
    out = {};
    out.number = static_cast<std::uint32_t>(tag >> 3);
    switch (tag & 7) {
      case 0:
        out.integer = varint();
        return true;
      case 1:
        take(8);
        return true;
      case 2:
        out.bytes = take(varint());
        return true;
      case 5: {
        std::uint32_t bits = 0;
        const std::string_view four = take(4);
        for (std::size_t i = 0; i < 4; ++i) {
          bits |= static_cast<std::uint32_t>(static_cast<unsigned char>(four[i])) << (8 * i);
        }
        out.real = std::bit_cast<float>(bits);
        return true;
      }
      default:
        fail("a field of no known type");
    }
  }

 private:
  [[noreturn]] void fail(std::string_view reason) const { throw LoadError(file_, "", reason); }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
      if (byte < 0x80) return value;
    }
    fail("a number of more than 64 bits");
  }

  std::string_view take(std::uint64_t length) {
    if (length > left_.size()) fail("ends in the middle of a field");
    const std::string_view taken = left_.substr(0, static_cast<std::size_t>(length));
    left_.remove_prefix(static_cast<std::size_t>(length));
    return taken;
  }

  std::string_view left_;
  const std::string& file_;
};

// Settings in the message; the values are protobuf's defaults.
struct Settings {
  std::int64_t model_type = 1;
  bool byte_fallback = false;
  bool space_after = false;
  std::int64_t unk = 0, bos = 1, eos = 2, pad = -1;
  bool has_character_table = false;
  bool dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;
};

void read_piece(std::string_view message, const std::string& file, TokenizerSpec& spec) {
  if (spec.tokens.size() == kMaxPieces) throw LoadError(file, "pieces", "more than 4194304");
  ProtoFields fields(message, file);
  std::string text;
  float score = 0;
  TokenType type = TokenType::kNormal;
  for (ProtoFields::Field field; fields.next(field);) {
    if (field.number == 1) text = std::string(field.bytes);
    if (field.number == 2) score = field.real;
    if (field.number == 3) type = token_type_numbered(field.integer);
  }
  if (text.empty()) throw LoadError(file, "pieces", "a piece without text");
  spec.tokens.push_back(std::move(text));
  spec.scores.push_back(score);
  spec.log_probs.push_back(score);
  spec.types.push_back(type);
}

void read_trainer(std::string_view message, const std::string& file, Settings& out) {
  ProtoFields fields(message, file);
  for (ProtoFields::Field field; fields.next(field);) {
    // Negative numbers are encoded as 64-bit varints.
    const auto number = static_cast<std::int64_t>(field.integer);
    if (field.number == 3) out.model_type = number;
    if (field.number == 24) out.space_after = number != 0;
    if (field.number == 35) out.byte_fallback = number != 0;
    if (field.number == 40) out.unk = number;
    if (field.number == 41) out.bos = number;
    if (field.number == 42) out.eos = number;
    if (field.number == 43) out.pad = number;
  }
}

void read_normalizer(std::string_view message, const std::string& file, Settings& out) {
  ProtoFields fields(message, file);
  for (ProtoFields::Field field; fields.next(field);) {
    if (field.number == 2) out.has_character_table = !field.bytes.empty();
    if (field.number == 3) out.dummy_prefix = field.integer != 0;
    if (field.number == 4) out.remove_extra_spaces = field.integer != 0;
    if (field.number == 5) out.escape_spaces = field.integer != 0;
  }
}

void add_steps(const Settings& settings, TokenizerSpec& spec) {
  const auto replace = [&](NormalizerStep::Kind kind, std::string pattern, std::string_view content) {
    NormalizerStep& step = spec.normalizer.emplace_back();
    step.kind = kind;
    step.pattern = std::move(pattern);
    step.content = std::string(content);
  };
  if (settings.remove_extra_spaces) {
    replace(NormalizerStep::Kind::kReplaceRegex, "^ +| +$", "");
    replace(NormalizerStep::Kind::kReplaceRegex, " {2,}", " ");
  }
  const std::string_view space = settings.escape_spaces ? kSpaceMark : std::string_view(" ");
  if (settings.dummy_prefix) {
    NormalizerStep& prepend = spec.normalizer.emplace_back();
    prepend.kind = NormalizerStep::Kind::kPrepend;
    prepend.content = std::string(space);
    spec.decoder.strip_leading_spaces = 1;
  }
  if (settings.escape_spaces) replace(NormalizerStep::Kind::kReplaceText, " ", kSpaceMark);
  spec.decoder.replacements.emplace_back(kSpaceMark, " ");
  spec.decoder.byte_tokens = true;
}

// Adds control and unknown tokens as special tokens, recognized with parse_special.
void add_control(TokenizerSpec& spec) {
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.types[id] != TokenType::kControl && spec.types[id] != TokenType::kUnknown) continue;
    AddedToken token;
    token.id = static_cast<TokenId>(id);
    token.content = spec.tokens[id];
    token.special = true;
    spec.added.push_back(std::move(token));
  }
}

void check_settings(const Settings& settings, const std::string& file) {
  if (settings.model_type != 1 && settings.model_type != 2) {
    throw LoadError(file, "trainer_spec.model_type",
                    "the type " + std::to_string(settings.model_type) +
                        " is not supported; supported are 1 (unigram) and 2 (BPE)");
  }
  if (settings.space_after) {
    throw LoadError(file, "trainer_spec.treat_whitespace_as_suffix", "true is not supported");
  }
  if (settings.has_character_table) {
    throw LoadError(file, "normalizer_spec.precompiled_charsmap", "a table of characters is not supported");
  }
}

}  // namespace

TokenizerSpec spec_of_sentencepiece(std::string_view bytes, const std::string& file,
                                    const std::optional<JsonLocation>& config) {
  TokenizerSpec spec;
  spec.source = file;
  Settings settings;
  ProtoFields fields(bytes, file);
  for (ProtoFields::Field field; fields.next(field);) {
    if (field.number == 1) read_piece(field.bytes, file, spec);
    if (field.number == 2) read_trainer(field.bytes, file, settings);
    if (field.number == 3) read_normalizer(field.bytes, file, settings);
  }
  if (spec.tokens.empty()) throw LoadError(file, "pieces", "there are none");
  check_settings(settings, file);

  spec.model = settings.model_type == 2 ? TokenizerModel::kSpm : TokenizerModel::kUnigram;
  spec.sentencepiece = true;
  spec.byte_fallback = settings.byte_fallback;
  spec.fuse_unk = true;
  add_steps(settings, spec);
  add_control(spec);
  const auto id = [&](std::int64_t value) -> std::optional<TokenId> {
    if (value < 0 || static_cast<std::uint64_t>(value) >= spec.tokens.size()) return std::nullopt;
    return static_cast<TokenId>(value);
  };
  spec.unk = id(settings.unk);
  spec.bos = id(settings.bos);
  spec.eos = id(settings.eos);
  spec.pad = id(settings.pad);
  spec.add_bos = spec.bos.has_value();  // as the tokenizers of Llama and Gemma do by default
  if (config) add_tokenizer_config(*config, spec);
  return spec;
}

}  // namespace reprise::models
