#include "models/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "models/text/unicode.h"

namespace reprise::models {
namespace {

bool is_word_before(std::string_view text, std::size_t at) {
  return at > 0 && is_word_character(read_valid_utf8(text, previous_utf8(text, at)).code_point);
}

bool is_word_after(std::string_view text, std::size_t at) {
  return at < text.size() && is_word_character(read_valid_utf8(text, at).code_point);
}

std::size_t skip_space_back(std::string_view text, std::size_t at, std::size_t limit) {
  while (at > limit) {
    const std::size_t before = previous_utf8(text, at);
    if (!(char_class(read_valid_utf8(text, before).code_point) & kSpace)) break;
    at = before;
  }
  return at;
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const Utf8Char read = read_valid_utf8(text, at);
    if (!(char_class(read.code_point) & kSpace)) break;
    at += read.length;
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) trie_.add(tokens_[i].content, static_cast<TokenId>(i));
}

std::vector<AddedTokens::Segment> AddedTokens::split(std::string_view text, bool parse_special) const {
  std::vector<Segment> segments;
  const auto is_wanted = [&](TokenId place) { return parse_special || !tokens_[place].special; };
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (!trie_.can_begin(text[at])) {
      ++at;
      continue;
    }
    const ByteTrie::Match match = trie_.longest(text, at, is_wanted);
    if (match.id < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[match.id];
    std::size_t begin = at;
    std::size_t end = at + match.length;
    at = end;
    if (token.single_word && (is_word_before(text, begin) || is_word_after(text, end))) continue;
    if (token.lstrip) begin = skip_space_back(text, begin, done);
    if (token.rstrip) at = end = skip_space(text, end);
    if (begin > done) segments.push_back({text.substr(done, begin - done)});
    segments.push_back({text.substr(begin, end - begin), token.id});
    done = end;
  }
  if (done < text.size()) segments.push_back({text.substr(done)});
  return segments;
}

}  // namespace reprise::models
