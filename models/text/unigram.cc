#include "models/text/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/utf8.h"
#include "models/files/load_error.h"
#include "models/text/byte_alphabet.h"

namespace reprise::models {
namespace {

constexpr double kUnknownPenalty = 10;

TokenType unigram_type(const TokenizerSpec& spec, std::size_t id) {
  return id < spec.types.size() ? spec.types[id] : TokenType::kNormal;
}

}  // namespace

Unigram::Unigram(const TokenizerSpec& spec, const StringTable& tokens)
    : single_precision_(spec.sentencepiece), unk_(spec.unk) {
  if (spec.log_probs.size() < tokens.size()) {
    throw LoadError(spec.source, "vocab", "fewer probabilities than tokens");
  }
  byte_tokens_.fill(StringTable::kNone);
  double least = std::numeric_limits<double>::max();
  double most = std::numeric_limits<double>::lowest();
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (!std::isfinite(spec.log_probs[id]))
      throw LoadError(spec.source, tokens[id], "a score that is no number");
    if (tokens[id].size() > kLongestToken)
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
    const auto byte = byte_of_fallback_token(tokens[id]);
    if (byte && spec.byte_fallback) byte_tokens_[*byte] = static_cast<TokenId>(id);
    if (spec.sentencepiece) {
      // What the user defined is worth about as much as its bytes could be at best: SentencePiece's own formula.
      if (type == TokenType::kUserDefined) scores_[id] = static_cast<double>(tokens[id].size()) * most - 0.1;
      if (type != TokenType::kNormal && type != TokenType::kUserDefined) continue;
    }
    trie_.add(tokens[id], static_cast<TokenId>(id));
  }
  covers_all_bytes_ =
      std::all_of(byte_tokens_.begin(), byte_tokens_.end(), [](TokenId id) { return id >= 0; });
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
    // SentencePiece keeps the sums in single precision.
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

  std::vector<std::size_t>& places = scratch.places;
  places.clear();
  for (std::size_t end = piece.size(); end > 0; end = nodes[end].begin) places.push_back(end);
  std::size_t unknown = kNowhere;  // where a run of unknown characters began
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    const Node& node = nodes[*place];
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

}  // namespace reprise::models
