#include "models/spm.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <string>

#include "models/byte_alphabet.h"
#include "models/load_error.h"
#include "models/utf8.h"

namespace reprise::models {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// Turns scores into numbers that sort the other way round: the highest score gets the lowest number.
std::uint32_t order_of(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);  // -0 is 0
  const std::uint32_t ascending = bits >> 31 ? ~bits : bits | 0x80000000u;
  return std::min(~ascending, kNone - 1);
}

}  // namespace

Spm::Spm(const TokenizerSpec& spec, const StringTable& tokens) : tokens_(tokens), unk_(spec.unk) {
  if (spec.scores.size() < tokens.size()) throw LoadError(spec.source, "scores", "fewer scores than tokens");
  order_.reserve(tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) order_.push_back(order_of(spec.scores[id]));

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
  auto& [begin, end, order, previous, next, queue] = scratch;
  begin.clear();
  end.clear();
  queue.clear();
  for (std::size_t at = 0; at < piece.size();) {
    begin.push_back(at);
    at += read_utf8(piece, at).length;
    end.push_back(at);
  }
  const auto count = static_cast<std::uint32_t>(begin.size());
  order.assign(count, kNone);  // of the pair that begins at each symbol
  previous.resize(count);
  next.resize(count);

  const auto look = [&](std::uint32_t at) {
    order[at] = kNone;
    if (next[at] == kNone) return false;
    ++work.lookups;
    const TokenId id = tokens_.find(piece.substr(begin[at], end[next[at]] - begin[at]));
    if (id >= 0) order[at] = order_[id];
    return id >= 0;
  };
  const auto entry = [&](std::uint32_t at) { return std::uint64_t{order[at]} << 32 | at; };

  for (std::uint32_t at = 0; at < count; ++at) {
    previous[at] = at == 0 ? kNone : at - 1;
    next[at] = at + 1 < count ? at + 1 : kNone;
  }
  for (std::uint32_t at = 0; at < count; ++at) {
    if (look(at)) queue.push_back(entry(at));
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  while (!queue.empty()) {
    ++work.moves;
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const std::uint64_t top = queue.back();
    queue.pop_back();
    const auto at = static_cast<std::uint32_t>(top);
    if (order[at] != top >> 32) continue;  // a neighbour was merged in the meantime

    const std::uint32_t right = next[at];
    end[at] = end[right];
    order[right] = kNone;
    next[at] = next[right];
    if (next[at] != kNone) previous[next[at]] = at;
    for (const std::uint32_t start : {previous[at], at}) {
      if (start == kNone || !look(start)) continue;
      queue.push_back(entry(start));
      std::push_heap(queue.begin(), queue.end(), std::greater<>());
    }
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
