#include "models/text/word_piece.h"

#include "base/utf8.h"
#include "models/text/unicode.h"

namespace reprise::models {
namespace {

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

}  // namespace

WordPiece::WordPiece(const TokenizerSpec& spec, const StringTable& tokens)
    : unk_(spec.unk), lower_case_(spec.lower_case) {
  for (std::size_t id = 0; id < tokens.size(); ++id) trie_.add(tokens[id], static_cast<TokenId>(id));
}

void WordPiece::encode(std::string_view text, EncodeWork& work, std::vector<TokenId>& out) const {
  const std::string decomposed = lower_case_ ? normalize(text, NormalForm::kNfd) : std::string(text);
  std::string word(kSpaceMark);
  const auto end_word = [&] {
    if (word.size() > kSpaceMark.size()) add_word(word, work, out);
    word.resize(kSpaceMark.size());
  };
  for (std::size_t at = 0; at < decomposed.size();) {
    const Utf8Char read = read_valid_utf8(decomposed, at);
    at += read.length;
    ++work.scanned;
    const char32_t c = read.code_point;
    const std::uint8_t bits = char_class(c);
    if (bits & kSpace) {
      end_word();
      continue;
    }
    if (c == 0 || c == kReplacementCharacter || is_control(c) || (lower_case_ && (bits & kMark))) continue;
    const bool is_word_by_itself = is_punctuation(c) || is_chinese(c);
    if (is_word_by_itself) end_word();
    append_utf8(word, lower_case_ ? to_lower(c) : c);
    if (is_word_by_itself) end_word();
  }
  end_word();
}

void WordPiece::add_word(std::string_view word, EncodeWork& work, std::vector<TokenId>& out) const {
  ++work.pieces;
  const std::size_t before = out.size();
  for (std::size_t at = 0; at < word.size();) {
    ++work.lookups;
    const ByteTrie::Match match = trie_.longest(word, at, [](TokenId) { return true; });
    if (match.id < 0) {
      out.resize(before);
      if (unk_) out.push_back(*unk_);
      return;
    }
    out.push_back(match.id);
    at += match.length;
  }
}

}  // namespace reprise::models
