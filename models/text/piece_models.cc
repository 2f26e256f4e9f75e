#include "models/text/piece_models.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "base/utf8.h"
#include "models/files/load_error.h"
#include "models/text/byte_alphabet.h"
#include "models/text/unicode.h"

namespace reprise::models {
namespace {

constexpr std::uint32_t kNone = MergeTable::kNever;  // no neighbor, or no rank

// Token "<0x..>" of each byte, or -1.
std::array<TokenId, 256> byte_tokens_of(const TokenizerSpec& spec, const StringTable& tokens) {
  std::array<TokenId, 256> found;
  found.fill(StringTable::kNone);
  for (std::size_t id = 0; spec.byte_fallback && id < tokens.size(); ++id) {
    if (const auto byte = byte_of_fallback_token(tokens[id])) found[*byte] = static_cast<TokenId>(id);
  }
  return found;
}

bool has_all(const std::array<TokenId, 256>& tokens) {
  return std::all_of(tokens.begin(), tokens.end(), [](TokenId id) { return id >= 0; });
}

MergeTable build_merges(const TokenizerSpec& spec, const StringTable& tokens) {
  MergeTable merges(spec.merges.size());
  std::string joined;
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto& [left, right] = spec.merges[rank];
    joined = left + right;
    const TokenId left_id = tokens.find(left);
    const TokenId right_id = tokens.find(right);
    const TokenId token = tokens.find(joined);
    if (left_id < 0 || right_id < 0 || token < 0) {
      if (spec.lenient_merges) continue;
      const std::string& missing = left_id < 0 ? left : right_id < 0 ? right : joined;
      throw LoadError(spec.source, "merges[" + std::to_string(rank) + "]", "no token '" + missing + "'");
    }
    merges.add(left_id, right_id, {static_cast<std::uint32_t>(rank), token});
  }
  return merges;
}

StringTable bytes_of_tokens(const StringTable& tokens) {
  std::vector<std::string> bytes(tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (auto decoded = from_letters(tokens[id])) bytes[id] = std::move(*decoded);
  }
  return StringTable(bytes);
}

std::string fallback_text(unsigned byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">";
}

// Rank of each score among the distinct scores, highest first. NaN ranks lowest.
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
    const auto entry = std::lower_bound(different.begin(), different.end(), score, std::greater<>());
    ranks.push_back(static_cast<std::uint32_t>(entry - different.begin()));
  }
  return ranks;
}

constexpr double kUnknownPenalty = 10;

TokenType unigram_type(const TokenizerSpec& spec, std::size_t id) {
  return id < spec.types.size() ? spec.types[id] : TokenType::kNormal;
}

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

}  // namespace

// -- MergeTable, MergeQueue

MergeTable::MergeTable(std::size_t merges) : mask_(std::bit_ceil(merges * 2 + 2) - 1), slots_(mask_ + 1) {}

void MergeTable::add(TokenId left, TokenId right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t slot = slot_of(key);
  while (slots_[slot].key != kFree && slots_[slot].key != key) slot = (slot + 1) & mask_;
  slots_[slot] = {key, merge};
}

void MergeQueue::Bucket::put(std::uint32_t position) {
  if (positions.empty() || position >= positions.back()) {
    positions.push_back(position);
  } else if (taken == 0) {
    positions.push_back(position);
    is_sorted = false;
  } else {
    late.push_back(position);
    std::push_heap(late.begin(), late.end(), std::greater<>());
  }
}

bool MergeQueue::Bucket::take(std::uint32_t& position) {
  if (!is_sorted) std::sort(positions.begin(), positions.end());
  is_sorted = true;
  const bool has_next = taken < positions.size();
  if (!late.empty() && (!has_next || late.front() < positions[taken])) {
    position = late.front();
    std::pop_heap(late.begin(), late.end(), std::greater<>());
    late.pop_back();
    return true;
  }
  if (has_next) position = positions[taken++];
  return has_next;
}

void MergeQueue::Bucket::clear() {
  positions.clear();
  late.clear();
  taken = 0;
  is_sorted = true;
}

void MergeQueue::reset(std::size_t ranks) {
  for (const std::uint32_t rank : ranks_) {
    buckets_[bucket_of_[rank]].clear();
    free_.push_back(bucket_of_[rank]);
    bucket_of_[rank] = kNone;
  }
  ranks_.clear();
  if (bucket_of_.size() < ranks) bucket_of_.resize(ranks, kNone);
}

void MergeQueue::push(std::uint32_t rank, std::uint32_t position) {
  std::uint32_t& number = bucket_of_[rank];
  if (number == kNone) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(buckets_.size()));
      buckets_.emplace_back();
    }
    number = free_.back();
    free_.pop_back();
    ranks_.push_back(rank);
    std::push_heap(ranks_.begin(), ranks_.end(), std::greater<>());
  }
  buckets_[number].put(position);
}

bool MergeQueue::pop(Entry& entry) {
  while (!ranks_.empty()) {
    const std::uint32_t rank = ranks_.front();
    Bucket& bucket = buckets_[bucket_of_[rank]];
    entry.rank = rank;
    if (bucket.take(entry.position)) return true;
    bucket.clear();
    free_.push_back(bucket_of_[rank]);
    bucket_of_[rank] = kNone;
    std::pop_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    ranks_.pop_back();
  }
  return false;
}

// -- Bpe

Bpe::Bpe(const TokenizerSpec& spec, const StringTable& tokens)
    : tokens_(tokens),
      merges_(build_merges(spec, tokens)),
      unk_(spec.unk),
      merged_(spec.merges.size()),
      byte_level_(spec.byte_level),
      ignore_merges_(spec.ignore_merges),
      fuse_unk_(spec.fuse_unk) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    byte_tokens_[byte] = byte_level_ ? tokens.find(to_letters({&raw, 1})) : StringTable::kNone;
    byte_fallback_[byte] = spec.byte_fallback ? tokens.find(fallback_text(byte)) : StringTable::kNone;
  }
  covers_all_bytes_ = has_all(byte_level_ ? byte_tokens_ : byte_fallback_);
  for (std::size_t rank = 0; rank < merged_.size(); ++rank) {
    merged_[rank] = tokens.find(spec.merges[rank].first + spec.merges[rank].second);
  }
  if (byte_level_ && ignore_merges_) whole_ = bytes_of_tokens(tokens);
}

void Bpe::encode(std::string_view piece, Scratch& scratch, EncodeWork& work,
                 std::vector<TokenId>& out) const {
  if (piece.empty()) return;
  ++work.pieces;
  if (ignore_merges_) {
    const TokenId id = (byte_level_ ? whole_ : tokens_).find(piece);
    if (id >= 0) return out.push_back(id);
  }
  scratch.symbols.clear();
  add_symbols(piece, scratch);
  if (scratch.symbols.size() <= kShort) {
    merge_short(scratch, work);
  } else {
    merge_long(scratch, work);
  }
  out.insert(out.end(), scratch.symbols.begin(), scratch.symbols.end());
}

void Bpe::add_symbols(std::string_view piece, Scratch& scratch) const {
  scratch.symbols.reserve(piece.size());
  if (byte_level_) {
    for (std::size_t at = 0; at < piece.size(); ++at) {
      const TokenId id = byte_tokens_[static_cast<unsigned char>(piece[at])];
      if (id >= 0) {
        scratch.symbols.push_back(id);
      } else {
        add_fallback(piece.substr(at, 1), scratch);
      }
    }
    return;
  }
  for (std::size_t at = 0; at < piece.size();) {
    const std::string_view character = piece.substr(at, read_utf8(piece, at).length);
    const TokenId id = tokens_.find(character);
    if (id >= 0) {
      scratch.symbols.push_back(id);
    } else {
      add_fallback(character, scratch);
    }
    at += character.size();
  }
}

void Bpe::add_fallback(std::string_view character, Scratch& scratch) const {
  const auto fallback = [&](char byte) { return byte_fallback_[static_cast<unsigned char>(byte)]; };
  if (std::all_of(character.begin(), character.end(), [&](char byte) { return fallback(byte) >= 0; })) {
    for (const char byte : character) scratch.symbols.push_back(fallback(byte));
    return;
  }
  if (!unk_) return;
  if (fuse_unk_ && !scratch.symbols.empty() && scratch.symbols.back() == *unk_) return;
  scratch.symbols.push_back(*unk_);
}

void Bpe::merge_short(Scratch& scratch, EncodeWork& work) const {
  std::vector<TokenId>& symbols = scratch.symbols;
  if (symbols.size() < 2) return;
  TokenId* ids = symbols.data();
  std::size_t pairs = symbols.size() - 1;
  MergeTable::Merge merge[kShort];  // of the pair that begins at each symbol
  for (std::size_t i = 0; i < pairs; ++i) merge[i] = merges_.find(ids[i], ids[i + 1]);
  work.lookups += pairs;

  while (pairs > 0) {
    work.moves += pairs;
    std::size_t best = 0;
    for (std::size_t i = 1; i < pairs; ++i) {
      if (merge[i].rank < merge[best].rank) best = i;
    }
    if (merge[best].rank == MergeTable::kNever) break;
    ids[best] = merge[best].token;
    std::copy(ids + best + 2, ids + pairs + 1, ids + best + 1);
    std::copy(merge + best + 1, merge + pairs, merge + best);
    --pairs;
    work.lookups += 2;
    if (best > 0) merge[best - 1] = merges_.find(ids[best - 1], ids[best]);
    if (best < pairs) merge[best] = merges_.find(ids[best], ids[best + 1]);
  }
  symbols.resize(pairs + 1);
}

void Bpe::merge_long(Scratch& scratch, EncodeWork& work) const {
  std::vector<TokenId>& symbols = scratch.symbols;
  const auto count = static_cast<std::uint32_t>(symbols.size());
  scratch.ranks.assign(count, MergeTable::kNever);  // of the pair that begins at each symbol
  scratch.previous.resize(count);
  scratch.next.resize(count);
  MergeQueue& queue = scratch.queue;  // may contain pairs already merged
  queue.reset(merged_.size());

  const auto look = [&](std::uint32_t at) {
    ++work.lookups;
    const std::uint32_t right = scratch.next[at];
    const std::uint32_t rank =
        right == kNone ? MergeTable::kNever : merges_.find(symbols[at], symbols[right]).rank;
    scratch.ranks[at] = rank;
    if (rank != MergeTable::kNever) queue.push(rank, at);
  };

  for (std::uint32_t at = 0; at < count; ++at) {
    scratch.previous[at] = at == 0 ? kNone : at - 1;
    scratch.next[at] = at + 1 < count ? at + 1 : kNone;
  }
  for (std::uint32_t at = 0; at < count; ++at) look(at);
  for (MergeQueue::Entry top; queue.pop(top);) {
    ++work.moves;
    const std::uint32_t at = top.position;
    if (scratch.ranks[at] != top.rank) continue;  // stale: a neighbor was merged

    const std::uint32_t right = scratch.next[at];
    symbols[at] = merged_[top.rank];
    scratch.ranks[right] = MergeTable::kNever;
    scratch.next[at] = scratch.next[right];
    if (scratch.next[at] != kNone) scratch.previous[scratch.next[at]] = at;
    if (scratch.previous[at] != kNone) look(scratch.previous[at]);
    look(at);
  }
  std::size_t kept = 0;
  for (std::uint32_t at = 0; at != kNone; at = scratch.next[at]) symbols[kept++] = symbols[at];
  symbols.resize(kept);
}

// -- Spm

Spm::Spm(const TokenizerSpec& spec, const StringTable& tokens)
    : tokens_(tokens),
      byte_tokens_(byte_tokens_of(spec, tokens)),
      unk_(spec.unk),
      fuses_unk_(spec.fuse_unk),
      covers_all_bytes_(has_all(byte_tokens_)) {
  if (spec.scores.size() < tokens.size()) throw LoadError(spec.source, "scores", "fewer scores than tokens");
  ranks_ = ranks_of(spec.scores);

  if (spec.sentencepiece) {
    types_ = spec.types;
    types_.resize(tokens.size(), TokenType::kNormal);
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (types_[id] != TokenType::kUserDefined) continue;
      if (tokens[id].size() > kMaxUserTokenLength)
        throw LoadError(spec.source, tokens[id], "a token that is too long");
      user_tokens_.add(tokens[id], static_cast<TokenId>(id));
    }
  }
}

/// The token of `text` if text may produce it; else kNone.
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
    const std::uint32_t at = top.position;
    if (ranks[at] != top.rank) continue;  // stale: a neighbor was merged

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

/// Appends a symbol's tokens, splitting unused tokens where they were merged.
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

/// Appends the token of `text`, or its fallback. `first`: index in `out` where this piece begins.
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

// -- Unigram

Unigram::Unigram(const TokenizerSpec& spec, const StringTable& tokens)
    : single_precision_(spec.sentencepiece),
      byte_tokens_(byte_tokens_of(spec, tokens)),
      unk_(spec.unk),
      covers_all_bytes_(has_all(byte_tokens_)) {
  if (spec.log_probs.size() < tokens.size()) {
    throw LoadError(spec.source, "vocab", "fewer probabilities than tokens");
  }
  double least = std::numeric_limits<double>::max();
  double most = std::numeric_limits<double>::lowest();
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (!std::isfinite(spec.log_probs[id]))
      throw LoadError(spec.source, tokens[id], "a score that is no number");
    if (tokens[id].size() > kMaxTokenLength)
      throw LoadError(spec.source, tokens[id], "a token that is too long");
    if (spec.sentencepiece && unigram_type(spec, id) != TokenType::kNormal) continue;
    least = std::min(least, spec.log_probs[id]);
    most = std::max(most, spec.log_probs[id]);
  }
  if (least > most) least = most = 0;
  unknown_score_ = least - kUnknownPenalty;

  scores_.assign(spec.log_probs.begin(), spec.log_probs.begin() + static_cast<std::ptrdiff_t>(tokens.size()));
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const TokenType type = unigram_type(spec, id);
    if (spec.sentencepiece) {
      // SentencePiece's formula for user-defined tokens: about the best score their bytes could reach.
      if (type == TokenType::kUserDefined) scores_[id] = static_cast<double>(tokens[id].size()) * most - 0.1;
      if (type != TokenType::kNormal && type != TokenType::kUserDefined) continue;
    }
    trie_.add(tokens[id], static_cast<TokenId>(id));
  }
}

void Unigram::encode(std::string_view piece, Scratch& scratch, EncodeWork& work,
                     std::vector<TokenId>& out) const {
  if (piece.empty()) return;
  ++work.pieces;
  std::vector<Node>& nodes = scratch.nodes;
  nodes.assign(piece.size() + 1, Node());
  const auto offer = [&](std::size_t begin, std::size_t end, TokenId id, double score) {
    Node& node = nodes[end];
    const double total = nodes[begin].score + score;
    if (node.begin != kNowhere && !(total > node.score)) return;
    // SentencePiece accumulates in single precision.
    node = {single_precision_ ? static_cast<double>(static_cast<float>(total)) : total, begin, id};
  };
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t character = read_utf8(piece, at).length;
    bool is_covered = false;
    trie_.each(piece, at, [&](TokenId id, std::size_t length) {
      ++work.lookups;
      offer(at, at + length, id, scores_[static_cast<std::size_t>(id)]);
      is_covered = is_covered || length == character;
    });
    if (!is_covered) offer(at, at + character, kUnknown, unknown_score_);
    at += character;
  }

  std::vector<std::size_t>& ends = scratch.ends;
  ends.clear();
  for (std::size_t end = piece.size(); end > 0; end = nodes[end].begin) ends.push_back(end);
  std::size_t unknown = kNowhere;  // start of a run of unknown characters
  for (auto boundary = ends.rbegin(); boundary != ends.rend(); ++boundary) {
    const Node& node = nodes[*boundary];
    const bool is_unknown = node.id == kUnknown || (unk_ && node.id == *unk_);
    if (is_unknown) {
      if (unknown == kNowhere) unknown = node.begin;
      continue;
    }
    if (unknown != kNowhere) add_unknown(piece.substr(unknown, node.begin - unknown), out);
    unknown = kNowhere;
    out.push_back(node.id);
  }
  if (unknown != kNowhere) add_unknown(piece.substr(unknown), out);
}

void Unigram::add_unknown(std::string_view text, std::vector<TokenId>& out) const {
  const auto token_of = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)]; };
  if (std::all_of(text.begin(), text.end(), [&](char byte) { return token_of(byte) >= 0; })) {
    for (const char byte : text) out.push_back(token_of(byte));
  } else if (unk_) {
    out.push_back(*unk_);
  }
}

// -- WordPiece

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

// -- LongestMatch

LongestMatch::LongestMatch(const TokenizerSpec& spec, const StringTable& tokens) : unk_(spec.unk) {
  for (std::size_t id = 0; id < tokens.size(); ++id) trie_.add(tokens[id], static_cast<TokenId>(id));
}

void LongestMatch::encode(std::string_view piece, EncodeWork& work, std::vector<TokenId>& out) const {
  ++work.pieces;
  for (std::size_t at = 0; at < piece.size();) {
    const ByteTrie::Match match = trie_.longest(piece, at, [](TokenId) { return true; });
    ++work.lookups;
    if (match.id >= 0) {
      out.push_back(match.id);
    } else if (unk_) {
      out.push_back(*unk_);
    }
    at += match.id >= 0 ? match.length : 1;
  }
}

bool LongestMatch::covers_all_bytes() const {
  for (int byte = 1; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    if (trie_.longest({&text, 1}, 0, [](TokenId) { return true; }).id < 0) return false;
  }
  return true;
}

}  // namespace reprise::models
