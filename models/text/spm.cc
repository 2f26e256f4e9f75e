#include "models/text/spm.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "base/utf8.h"
#include "models/files/load_error.h"
#include "models/text/byte_alphabet.h"

namespace reprise::models {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// The place of each score among the different scores, highest first. A score that is no number is the lowest.
std::vector<std::uint32_t> ranks_of(std::vector<float> scores) {
  for (float& score : scores) {
    if (!(score == score)) score = -std::numeric_limits<float>::infinity();
  }
  std::vector<float> different = scores;
  std::sort(different.begin(), different.end(), std::greater<>());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  std::vector<std::uint32_t> ranks;
  ranks.reserve(scores.size());
  for (const float score : scores) {
    const auto place = std::lower_bound(different.begin(), different.end(), score, std::greater<>());
    ranks.push_back(static_cast<std::uint32_t>(place - different.begin()));
  }
  return ranks;
}

}  // namespace

Spm::Spm(const TokenizerSpec& spec, const StringTable& tokens)
    : tokens_(tokens), unk_(spec.unk), fuses_unk_(spec.fuse_unk) {
  if (spec.scores.size() < tokens.size()) throw LoadError(spec.source, "scores", "fewer scores than tokens");
  ranks_ = ranks_of(spec.scores);

  if (spec.sentencepiece) {
    types_ = spec.types;
    types_.resize(tokens.size(), TokenType::kNormal);
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (types_[id] != TokenType::kUserDefined) continue;
      if (tokens[id].size() > kLongestUserToken)
        throw LoadError(spec.source, tokens[id], "a token that is too long");
      user_tokens_.add(tokens[id], static_cast<TokenId>(id));
    }
  }

  byte_tokens_.fill(StringTable::kNone);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const auto byte = byte_of_fallback_token(tokens[id]);
    if (byte && spec.byte_fallback) byte_tokens_[*byte] = static_cast<TokenId>(id);
  }
  covers_all_bytes_ =
      std::all_of(byte_tokens_.begin(), byte_tokens_.end(), [](TokenId id) { return id >= 0; });
}

/// A token that text may become.
TokenId Spm::find(std::string_view text) const {
  const TokenId id = tokens_.find(text);
  if (id < 0 || types_.empty()) return id;
  const TokenType type = types_[static_cast<std::size_t>(id)];
  const bool is_text =
      type == TokenType::kNormal || type == TokenType::kUserDefined || type == TokenType::kUnused;
  return is_text ? id : StringTable::kNone;
}

void Spm::encode(std::string_view piece, Scratch& scratch, EncodeWork& work,
                 std::vector<TokenId>& out) const {
  if (piece.empty()) return;
  ++work.pieces;
  auto& [begin, end, ranks, previous, next, is_frozen, seams, to_split, queue] = scratch;
  begin.clear();
  end.clear();
  is_frozen.clear();
  seams.clear();
  queue.reset(ranks_.size());
  const std::size_t first = out.size();
  for (std::size_t at = 0; at < piece.size();) {
    const ByteTrie::Match user = user_tokens_.longest(piece, at, [](TokenId) { return true; });
    begin.push_back(at);
    at += user.id >= 0 ? user.length : read_utf8(piece, at).length;
    end.push_back(at);
    if (!user_tokens_.is_empty()) is_frozen.push_back(user.id >= 0);
  }
  const auto count = static_cast<std::uint32_t>(begin.size());
  ranks.assign(count, kNone);  // of the pair that begins at each symbol
  previous.resize(count);
  next.resize(count);

  const auto look = [&](std::uint32_t at) {
    ranks[at] = kNone;
    if (next[at] == kNone) return;
    if (!is_frozen.empty() && (is_frozen[at] || is_frozen[next[at]])) return;
    ++work.lookups;
    const TokenId id = find(piece.substr(begin[at], end[next[at]] - begin[at]));
    if (id < 0) return;
    ranks[at] = ranks_[id];
    queue.push(ranks[at], at);
  };

  for (std::uint32_t at = 0; at < count; ++at) {
    previous[at] = at == 0 ? kNone : at - 1;
    next[at] = at + 1 < count ? at + 1 : kNone;
  }
  for (std::uint32_t at = 0; at < count; ++at) look(at);
  for (MergeQueue::Entry top; queue.pop(top);) {
    ++work.moves;
    const std::uint32_t at = top.place;
    if (ranks[at] != top.rank) continue;  // a neighbour was merged in the meantime

    const std::uint32_t right = next[at];
    if (!types_.empty()) {
      const std::string_view joined = piece.substr(begin[at], end[right] - begin[at]);
      const TokenId id = find(joined);
      if (types_[static_cast<std::size_t>(id)] == TokenType::kUnused) seams[joined] = end[at] - begin[at];
    }
    end[at] = end[right];
    ranks[right] = kNone;
    next[at] = next[right];
    if (next[at] != kNone) previous[next[at]] = at;
    if (previous[at] != kNone) look(previous[at]);
    look(at);
  }
  for (std::uint32_t at = 0; at != kNone; at = next[at]) {
    add_symbol(piece.substr(begin[at], end[at] - begin[at]), scratch, first, out);
  }
}

/// With unused tokens taken apart where they were put together.
void Spm::add_symbol(std::string_view text, Scratch& scratch, std::size_t first,
                     std::vector<TokenId>& out) const {
  if (scratch.seams.empty()) return add_token(text, first, out);
  scratch.to_split.assign(1, text);
  while (!scratch.to_split.empty()) {
    const std::string_view part = scratch.to_split.back();
    scratch.to_split.pop_back();
    const auto seam = scratch.seams.find(part);
    if (seam == scratch.seams.end()) {
      add_token(part, first, out);
    } else {
      scratch.to_split.push_back(part.substr(seam->second));
      scratch.to_split.push_back(part.substr(0, seam->second));
    }
  }
}

/// `first`: where the tokens of this piece begin.
void Spm::add_token(std::string_view text, std::size_t first, std::vector<TokenId>& out) const {
  const TokenId id = find(text);
  if (id >= 0) return out.push_back(id);
  for (const char byte : text) {
    const TokenId fallback = byte_tokens_[static_cast<unsigned char>(byte)];
    if (fallback >= 0) {
      out.push_back(fallback);
    } else if (unk_) {
      if (!fuses_unk_ || out.size() == first || out.back() != *unk_) out.push_back(*unk_);
      return;
    }
  }
}

}  // namespace reprise::models
