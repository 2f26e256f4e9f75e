#include "protocol/grammar/closing.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "protocol/grammar/mask_maker.h"

namespace reprise::protocol::grammar {
namespace {

constexpr std::uint32_t kCharTokens = 8;  // that a character may need to become whole: \ud8 does

}  // namespace

Closing::Closing(const Program& program, const Vocabulary& vocabulary)
    : vocabulary_(vocabulary),
      endings_(program),
      window_(std::min(kMaxWindow, 2 * endings_.max_cost() + 32)) {
  const auto nodes = vocabulary.nodes();
  if (nodes.empty()) return;
  for (std::uint32_t child = 1; child < nodes[0].end; child = nodes[child].end) {
    first_nodes_[nodes[child].byte] = child;
  }
  for (const TokenId id : vocabulary.specials()) special_texts_[vocabulary.token(id).bytes].push_back(id);
}

// Calls visit(token, its bytes) for each token that the text goes on with from an offset.
template <class Visit>
void Closing::for_each_token(const Ending& ending, std::size_t offset, const Visit& visit) const {
  const std::string_view rest = std::string_view(ending.text).substr(offset);
  if (rest.empty()) return;
  const auto nodes = vocabulary_.nodes();
  std::uint32_t node = first_nodes_[static_cast<std::uint8_t>(rest[0])];
  for (std::size_t length = 1; node != 0; ++length) {
    for (TokenId id = nodes[node].token; id >= 0; id = vocabulary_.same_as(id)) visit(id, length);
    if (length == rest.size()) break;
    const auto byte = static_cast<std::uint8_t>(rest[length]);
    std::uint32_t next = 0;
    for (std::uint32_t child = node + 1; child < nodes[node].end; child = nodes[child].end) {
      if (nodes[child].byte != byte) continue;
      next = child;
      break;
    }
    node = next;
  }
  for (const Ending::Mark& mark : ending.marks) {
    if (mark.begin != offset) continue;
    const auto found = special_texts_.find(std::string(rest.substr(0, mark.bytes)));
    if (found == special_texts_.end()) continue;
    for (const TokenId id : found->second) visit(id, mark.bytes);
  }
}

std::optional<ClosingText> Closing::text(Matcher& matcher, Matcher::State state) const {
  std::optional<Ending> ending = matcher.ending(state, endings_);
  if (!ending) return std::nullopt;
  ClosingText found{.ending = std::move(*ending), .tokens_left = {}};
  std::vector<std::uint32_t>& left = found.tokens_left;
  left.assign(found.ending.text.size() + 1, kNever);
  left.back() = 0;
  for (std::size_t at = found.ending.text.size(); at-- > 0;) {
    for_each_token(found.ending, at, [&](TokenId, std::size_t length) {
      const std::uint32_t behind = left[at + length];
      if (behind != kNever) left[at] = std::min(left[at], behind + 1);
    });
  }
  if (left.front() > kMaxTokens) return std::nullopt;
  return found;
}

std::uint32_t Closing::tokens_to_end(Matcher& matcher, Matcher::State state) const {
  if (matcher.accepts(state)) return 0;
  const auto found = text(matcher, state);
  return found ? found->tokens_left.front() : kNever;
}

std::uint32_t Closing::tokens_within(Matcher& matcher, Matcher::State state,
                                     const Matcher::Within& within) const {
  const std::uint32_t here = tokens_to_end(matcher, matcher.alone(state, within));
  if (here == kNever) return kNever;
  std::uint32_t more = kCharTokens;
  if (within.rule.dfa != kNowhere) more += endings_.max_chars_cost(within.rule.dfa);
  if (within.rule.object != kNowhere) more += endings_.max_other_cost(within.rule.object);
  return here + more;
}

SharedMask Closing::mask(const ClosingText& text, std::size_t offset, std::size_t left) const {
  auto mask = std::make_shared<TokenMask>(vocabulary_.size());
  const auto allow = [&](TokenId id) {
    if (mask->allows(id)) return;
    mask->allow(id);
    ++mask->count;
  };
  if (offset >= text.ending.text.size()) {
    for (const TokenId id : vocabulary_.stops()) allow(id);
    mask->ends = mask->count == 0;
    return mask;
  }
  for_each_token(text.ending, offset, [&](TokenId id, std::size_t length) {
    const std::uint32_t behind = text.tokens_left[offset + length];
    if (behind != kNever && std::size_t{behind} + 1 <= left) allow(id);
  });
  return mask;
}

// -- masks near the limit of a reply

std::uint32_t MaskMaker::tokens_to_end(Known& known, Matcher::State state) const {
  const auto found = known.tokens_to_end.find(state);
  if (found != known.tokens_to_end.end()) return found->second;
  const std::uint32_t tokens = closing_->tokens_to_end(known.matcher, state);
  known.mask_bytes += 48;
  known.tokens_to_end.emplace(state, tokens);
  return tokens;
}

// As made(), but of the tokens behind which the reply can end with `left` more tokens; and the tokens that the worst of the
// others would need.
MaskMaker::Closable MaskMaker::closable(Known& known, Matcher::State state, std::size_t left) const {
  Matcher& matcher = known.matcher;
  Closable found{.mask = std::make_shared<TokenMask>(vocabulary_->size()), .worst = 0};
  const auto fits = [&](std::uint32_t tokens) {
    found.worst = std::max(found.worst, tokens);
    return tokens <= left;
  };
  const auto nodes = vocabulary_->nodes();
  const auto walk = [&](const auto& self, std::uint32_t parent, Matcher::State at, bool has_plain) -> void {
    if (!has_plain && matcher.is_free(at)) {
      const std::uint32_t here = tokens_to_end(known, at);
      if (fits(here == Closing::kNever ? here : here + 3)) {  // the rest of a character
        const auto plain = vocabulary_->plain_tokens();
        for (std::uint32_t i = nodes[parent].plain; i < nodes[parent].plain_end; ++i)
          found.mask->allow(plain[i]);
      }
      has_plain = true;
    }
    for (std::uint32_t child = parent + 1; child < nodes[parent].end; child = nodes[child].end) {
      const Vocabulary::TrieNode& node = nodes[child];
      budget_.charge();
      if (has_plain && node.only_plain) return;
      const Matcher::State next = matcher.step(at, node.byte);
      if (next == Matcher::kDead) continue;
      if (node.token >= 0 && fits(tokens_to_end(known, next))) {
        for (TokenId id = node.token; id >= 0; id = vocabulary_->same_as(id)) found.mask->allow(id);
      }
      if (node.end > child + 1) self(self, child, next, has_plain);
    }
  };
  const auto walk_from = [&](std::uint32_t node, Matcher::State at) {
    if (nodes[node].token >= 0 && fits(tokens_to_end(known, at))) {
      for (TokenId id = nodes[node].token; id >= 0; id = vocabulary_->same_as(id)) found.mask->allow(id);
    }
    if (nodes[node].end > node + 1) walk(walk, node, at, false);
  };
  if (!nodes.empty()) {
    const std::vector<Matcher::Within> strings = matcher.within(state);
    for (const Matcher::Within& one : strings) {
      const bool stays = fits(closing_->tokens_within(matcher, state, one));
      const ContentMask& content = known.contents.of(one.rule, one.place.a, one.place.b);
      for (std::size_t i = 0; stays && i < found.mask->bits.size(); ++i) {
        found.mask->bits[i] |= content.tokens.bits[i];
      }
      std::uint32_t label = 0;
      Matcher::State behind = Matcher::kDead;
      for (const ContentMask::Leave& leave : content.leaves) {
        if (leave.label != label) behind = matcher.left(one.place, label = leave.label);
        if (behind != Matcher::kDead) walk_from(leave.node, behind);
      }
      for (const ContentMask::Branch& branch : content.branches) {
        const Matcher::State before = matcher.moved(one.place, branch.a, branch.b);
        const Matcher::State at = matcher.step(before, nodes[branch.node].byte);
        if (at != Matcher::kDead) walk_from(branch.node, at);
      }
    }
    const Matcher::State rest = strings.empty() ? state : matcher.without(state, strings);
    if (rest != Matcher::kDead) walk(walk, 0, rest, false);
  }
  if (matcher.takes_special(state)) {
    for (const TokenId id : vocabulary_->specials()) {
      const Matcher::State next = matcher.step_special(state, vocabulary_->token(id).bytes);
      if (next != Matcher::kDead && fits(tokens_to_end(known, next))) found.mask->allow(id);
    }
  }
  return found;
}

// `mask`: of the state, whatever is left. What takes too much is not done, and the reply may be cut.
SharedMask ReplyConstraint::within_limit(SharedMask mask) {
  try {
    return find_within_limit(mask);
  } catch (const GrammarError&) {
    gave_up_ = true;
    maker_->budget_.begin({});
    maker_->let_go();
    return mask;
  }
}

SharedMask ReplyConstraint::find_within_limit(const SharedMask& mask) {
  if (max_tokens_ <= tokens_.size() || mask->ends || gave_up_) return mask;
  const std::size_t left = max_tokens_ - tokens_.size();
  if (closing_) return closing_mask(left, mask);
  if (left > Closing::kFarthest) return mask;
  MaskMaker& maker = *maker_;
  if (maker.closing_ == nullptr)
    maker.closing_ = std::make_unique<Closing>(*maker.program_, *maker.vocabulary_);
  MaskMaker::Known& known = *maker.known_;
  const std::uint32_t needed = maker.tokens_to_end(known, state_);
  if (needed > left || left > needed + maker.closing_->window()) return mask;
  if (needed < left) {
    const auto worst = known.worst_next.find(state_);
    if (worst != known.worst_next.end() && worst->second < left) return mask;
    MaskMaker::Closable closable = maker.closable(known, state_, left - 1);
    known.mask_bytes += 48;
    known.worst_next[state_] = closable.worst;
    if (closable.worst < left) return mask;
    // Tokens that were too long for the trie are left out.
    TokenMask& fewer = *closable.mask;
    if (known.matcher.accepts(state_)) {
      for (const TokenId id : maker.vocabulary_->stops()) fewer.allow(id);
    }
    fewer.count = 0;
    for (std::size_t i = 0; i < fewer.bits.size(); ++i) {
      fewer.bits[i] &= mask->bits[i];
      fewer.count += static_cast<std::uint32_t>(std::popcount(fewer.bits[i]));
    }
    if (fewer.count > 0) {
      // Where the reply could end as it is, nothing of it is lost.
      narrowed_ = narrowed_ || (needed > 0 && fewer.count < mask->count);
      return std::move(closable.mask);
    }
  }
  auto text = maker.closing_->text(known.matcher, state_);
  if (!text || !known.matcher.accepts(known.matcher.step(state_, text->ending.text))) {
    gave_up_ = true;
    return mask;
  }
  closing_ = std::make_shared<const ClosingText>(std::move(*text));
  closed_at_ = tokens_.size();
  return closing_mask(left, mask);
}

// `mask` where the reply has left the text: reasoning that is ended from outside does not ask for masks.
SharedMask ReplyConstraint::closing_mask(std::size_t left, const SharedMask& mask) {
  const std::string_view text = closing_->ending.text;
  std::size_t offset = 0;
  for (std::size_t i = closed_at_; i < tokens_.size(); ++i) {
    const std::string& bytes = maker_->vocabulary_->token(tokens_[i]).bytes;
    gave_up_ = gave_up_ || text.substr(offset, bytes.size()) != bytes;
    if (gave_up_) return mask;
    offset += bytes.size();
  }
  SharedMask closing = maker_->closing_->mask(*closing_, offset, left);
  if (closing->count == 0 && !closing->ends) {
    gave_up_ = true;
    return mask;
  }
  narrowed_ = true;
  return closing;
}

// Without work; null: within_limit() has some.
SharedMask ReplyConstraint::within_limit_if_known(SharedMask mask) const {
  if (max_tokens_ <= tokens_.size() || mask->ends || gave_up_) return mask;
  const std::size_t left = max_tokens_ - tokens_.size();
  if (left > Closing::kFarthest) return mask;
  const MaskMaker& maker = *maker_;
  if (closing_ || maker.closing_ == nullptr) return nullptr;
  const MaskMaker::Known& known = *maker.known_;
  const auto needed = known.tokens_to_end.find(state_);
  if (needed == known.tokens_to_end.end()) return nullptr;
  if (needed->second > left || left > needed->second + maker.closing_->window()) return mask;
  const auto worst = known.worst_next.find(state_);
  const bool fits = needed->second < left && worst != known.worst_next.end() && worst->second < left;
  return fits ? mask : nullptr;
}

}  // namespace reprise::protocol::grammar
