#include "protocol/grammar/mask_maker.h"

#include <algorithm>
#include <bit>

namespace reprise::protocol::grammar {

MaskMaker::MaskMaker(std::shared_ptr<const Program> program, std::shared_ptr<const Vocabulary> vocabulary)
    : program_(std::move(program)),
      vocabulary_(std::move(vocabulary)),
      known_(std::make_unique<Known>(program_)) {}

Matcher::State MaskMaker::step(Known& known, Matcher::State state, TokenId token) const {
  const auto stops = vocabulary_->stops();
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) return Matcher::kDead;
  if (token < 0 || static_cast<std::size_t>(token) >= vocabulary_->token_count()) return Matcher::kDead;
  const Vocabulary::Token& entry = vocabulary_->token(token);
  if (entry.bytes.empty()) return Matcher::kDead;
  return entry.special ? known.matcher.step_special(state, entry.bytes)
                       : known.matcher.step(state, entry.bytes);
}

SharedMask MaskMaker::mask_at(Known& known, Matcher::State state) const {
  if (const auto found = known.masks.find(state); found != known.masks.end()) return found->second;
  Matcher& matcher = known.matcher;
  const std::uint32_t free_chars = matcher.free_chars(state);
  const bool plain_done = free_chars == Matcher::kManyChars || (free_chars > 0 && matcher.only_free(state));
  auto mask = std::make_shared<TokenMask>(plain_done ? vocabulary_->plain_up_to(free_chars)
                                                     : TokenMask(vocabulary_->size()));
  if (!vocabulary_->nodes().empty()) walk(matcher, 0, state, plain_done, *mask);
  if (matcher.takes_special(state)) {
    for (const TokenId id : vocabulary_->specials()) {
      if (matcher.step_special(state, vocabulary_->token(id).bytes) != Matcher::kDead) mask->allow(id);
    }
  }
  if (matcher.accepts(state)) {
    for (const TokenId id : vocabulary_->stops()) mask->allow(id);
  }
  std::uint64_t hash = 0;
  for (const std::uint32_t word : mask->bits) {
    mask->count += static_cast<std::uint32_t>(std::popcount(word));
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 29;
  }
  mask->ends = mask->count == 0 && matcher.accepts(state);
  SharedMask kept = std::move(mask);
  const auto [begin, end] = known.by_content.equal_range(hash);
  const auto same = std::find_if(begin, end, [&](const auto& entry) {
    return entry.second->bits == kept->bits && entry.second->ends == kept->ends;
  });
  if (same != end) {
    kept = same->second;
  } else {
    known.by_content.emplace(hash, kept);
    known.mask_bytes += kept->bits.size() * 4 + 128;
  }
  known.mask_bytes += 64;
  known.masks.emplace(state, kept);
  return kept;
}

// All tokens below a node of the trie, from the state that it led to. `plain_done`: plain ones are in the mask as
// far as they may be.
void MaskMaker::walk(Matcher& matcher, std::uint32_t parent, Matcher::State state, bool plain_done,
                     TokenMask& mask) const {
  const auto nodes = vocabulary_->nodes();
  if (!plain_done && matcher.free_chars(state) == Matcher::kManyChars) {
    const auto plain = vocabulary_->plain_tokens();
    for (std::uint32_t i = nodes[parent].plain; i < nodes[parent].plain_end; ++i) mask.allow(plain[i]);
    plain_done = true;
  }
  for (std::uint32_t child = parent + 1; child < nodes[parent].end; child = nodes[child].end) {
    const Vocabulary::TrieNode& node = nodes[child];
    if (plain_done && node.only_plain) return;  // and so are all behind it
    const Matcher::State next = matcher.step(state, node.byte);
    if (next == Matcher::kDead) continue;
    for (TokenId id = node.token; id >= 0; id = vocabulary_->same_as(id)) mask.allow(id);
    if (node.end > child + 1) walk(matcher, child, next, plain_done, mask);
  }
}

void MaskMaker::let_go_if_full() {
  if (known_->matcher.bytes() + known_->mask_bytes <= program_->limits.matcher_bytes) return;
  known_ = std::make_unique<Known>(program_);
  ++epoch_;
}

// The place in what is known now.
void ReplyConstraint::find_place() {
  if (epoch_ == maker_->epoch_) return;
  state_ = maker_->known_->matcher.start();
  for (const TokenId token : tokens_) state_ = maker_->step(*maker_->known_, state_, token);
  epoch_ = maker_->epoch_;
}

SharedMask ReplyConstraint::mask() {
  const std::lock_guard<std::mutex> held(maker_->lock_);
  maker_->let_go_if_full();
  find_place();
  return maker_->mask_at(*maker_->known_, state_);
}

bool ReplyConstraint::accept(TokenId token) {
  const std::lock_guard<std::mutex> held(maker_->lock_);
  find_place();
  const Matcher::State next = maker_->step(*maker_->known_, state_, token);
  if (next == Matcher::kDead) return false;
  state_ = next;
  tokens_.push_back(token);
  return true;
}

bool ReplyConstraint::may_end() {
  const std::lock_guard<std::mutex> held(maker_->lock_);
  find_place();
  return maker_->known_->matcher.accepts(state_);
}

}  // namespace reprise::protocol::grammar
