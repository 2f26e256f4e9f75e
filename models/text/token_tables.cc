#include "models/text/token_tables.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "models/files/load_error.h"
#include "models/text/byte_alphabet.h"

namespace reprise::models {
namespace {

constexpr std::size_t kMostTokens = std::size_t{1} << 22;

std::size_t count_ids(const TokenizerSpec& spec) {
  std::size_t count = spec.tokens.size();
  for (const AddedToken& token : spec.added) count = std::max(count, static_cast<std::size_t>(token.id) + 1);
  return count;
}

}  // namespace

TokenizerSpec check_ids(TokenizerSpec spec) {
  for (const AddedToken& token : spec.added) {
    if (token.id < 0) throw LoadError(spec.source, token.content, "an added token with a negative id");
  }
  const std::size_t count = count_ids(spec);
  if (count > kMostTokens) throw LoadError(spec.source, "vocab", "ids past 4194303");
  for (std::optional<TokenId>* id : {&spec.unk, &spec.bos, &spec.eos, &spec.pad}) {
    if (*id && (**id < 0 || static_cast<std::size_t>(**id) >= count)) id->reset();
  }
  return spec;
}

std::vector<std::string> texts_by_id(const TokenizerSpec& spec) {
  std::vector<std::string> texts = spec.tokens;
  texts.resize(count_ids(spec));
  for (const AddedToken& token : spec.added) texts[token.id] = token.content;
  return texts;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at; !from.empty() && (at = text.find(from, done)) != std::string_view::npos;) {
    out.append(text.substr(done, at - done)).append(to);
    done = at + from.size();
  }
  return out.append(text.substr(done));
}

std::vector<std::string> bytes_by_id(const TokenizerSpec& spec) {
  std::vector<std::string> bytes = texts_by_id(spec);
  std::vector<bool> is_added(bytes.size());
  for (const AddedToken& token : spec.added) is_added[token.id] = true;
  for (std::size_t id = 0; id < bytes.size(); ++id) {
    const TokenType type = id < spec.types.size() ? spec.types[id] : TokenType::kNormal;
    if (type == TokenType::kUnused && !is_added[id]) {
      bytes[id].clear();
      continue;
    }
    const bool may_be_byte = spec.decoder.byte_tokens && (spec.types.empty() || type == TokenType::kByte);
    if (const auto byte = may_be_byte ? byte_of_fallback_token(bytes[id]) : std::nullopt) {
      bytes[id] = std::string(1, static_cast<char>(*byte));
      continue;
    }
    if (spec.decoder.alphabet == DecoderSpec::Alphabet::kByteLevel && !is_added[id]) {
      // A token outside the alphabet stands for its own text.
      if (auto decoded = from_letters(bytes[id])) bytes[id] = std::move(*decoded);
    }
    for (const auto& [from, to] : spec.decoder.replacements) bytes[id] = replace_all(bytes[id], from, to);
  }
  return bytes;
}

std::vector<bool> specials_by_id(const TokenizerSpec& spec) {
  std::vector<bool> flags(count_ids(spec));
  for (std::size_t id = 0; id < std::min(spec.types.size(), flags.size()); ++id) {
    flags[id] = spec.types[id] == TokenType::kControl || spec.types[id] == TokenType::kUnknown;
  }
  for (const AddedToken& token : spec.added) {
    if (token.special) flags[token.id] = true;
  }
  return flags;
}

bool keeps_words_apart(const TokenizerSpec& spec) {
  const auto crosses = [](const std::string& token) {
    for (std::size_t at = 0; (at = token.find(kSpaceMark, at + 1)) != std::string::npos;) {
      if (!std::string_view(token).substr(0, at).ends_with(kSpaceMark)) return true;
    }
    return false;
  };
  const bool merges = spec.model == TokenizerModel::kBpe || spec.model == TokenizerModel::kSpm;
  if (!merges || spec.byte_level) return false;
  return std::find(spec.tokens.begin(), spec.tokens.end(), kSpaceMark) != spec.tokens.end() &&
         std::none_of(spec.tokens.begin(), spec.tokens.end(), crosses);
}

}  // namespace reprise::models
