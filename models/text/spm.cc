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

Spm::Spm(const TokenizerSpec& spec, const StringTable& tokens) : tokens_(tokens), unk_(spec.unk) {
  if (spec.scores.size() < tokens.size()) throw LoadError(spec.source, "scores", "fewer scores than tokens");
  ranks_ = ranks_of(spec.scores);

  byte_tokens_.fill(StringTable::kNone);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const auto byte = byte_of_fallback_token(tokens[id]);
    if (byte && spec.byte_fallback) byte_tokens_[*byte] = static_cast<TokenId>(id);
  }
  covers_all_bytes_ =
      std::all_of(byte_tokens_.begin(), byte_tokens_.end(), [](TokenId id) { return id >= 0; });
}

void Spm::encode(std::string_view piece, Scratch& scratch, EncodeWork& work,
                 std::vector<TokenId>& out) const {
  if (piece.empty()) return;
  ++work.pieces;
  auto& [begin, end, ranks, previous, next, queue] = scratch;
  begin.clear();
  end.clear();
  queue.reset(ranks_.size());
  for (std::size_t at = 0; at < piece.size();) {
    begin.push_back(at);
    at += read_utf8(piece, at).length;
    end.push_back(at);
  }
  const auto count = static_cast<std::uint32_t>(begin.size());
  ranks.assign(count, kNone);  // of the pair that begins at each symbol
  previous.resize(count);
  next.resize(count);

  const auto look = [&](std::uint32_t at) {
    ranks[at] = kNone;
    if (next[at] == kNone) return;
    ++work.lookups;
    const TokenId id = tokens_.find(piece.substr(begin[at], end[next[at]] - begin[at]));
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
    end[at] = end[right];
    ranks[right] = kNone;
    next[at] = next[right];
    if (next[at] != kNone) previous[next[at]] = at;
    if (previous[at] != kNone) look(previous[at]);
    look(at);
  }
  for (std::uint32_t at = 0; at != kNone; at = next[at]) {
    add_token(piece.substr(begin[at], end[at] - begin[at]), out);
  }
}

void Spm::add_token(std::string_view text, std::vector<TokenId>& out) const {
  const TokenId id = tokens_.find(text);
  if (id >= 0) return out.push_back(id);
  for (const char byte : text) {
    const TokenId fallback = byte_tokens_[static_cast<unsigned char>(byte)];
    if (fallback >= 0) {
      out.push_back(fallback);
    } else if (unk_) {
      out.push_back(*unk_);
      return;
    }
  }
}

}  // namespace reprise::models
