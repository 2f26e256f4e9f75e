#include "protocol/grammar/mask_maker.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace reprise::protocol::grammar {

MaskMaker::MaskMaker(std::shared_ptr<const Program> program, std::shared_ptr<const Vocabulary> vocabulary)
    : program_(std::move(program)),
      vocabulary_(std::move(vocabulary)),
      program_bytes_(program_->bytes()),
      budget_("making a mask", program_->limits,
              {.steps = program_->limits.mask_steps, .bytes = program_->limits.mask_bytes}),
      known_(std::make_unique<Known>(program_, *vocabulary_, budget_)) {
  count_bytes();
}

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
  const Matcher::State typical = known.matcher.typical(state);
  const auto found = known.masks.find(typical);
  SharedMask mask = found != known.masks.end() ? found->second : made(known, typical);
  known.mask_bytes += 64;
  if (state == typical) mask = with_long_tokens(known, state, mask);
  known.masks.emplace(typical, mask);
  if (state == typical) return mask;
  mask = with_long_tokens(known, state, mask);
  known.masks.emplace(state, mask);
  return mask;
}

// Long tokens tell states apart that are alike to others.
SharedMask MaskMaker::with_long_tokens(Known& known, Matcher::State state, const SharedMask& mask) const {
  std::shared_ptr<TokenMask> other;
  for (const TokenId id : vocabulary_->long_tokens()) {
    const bool allowed = known.matcher.step(state, vocabulary_->token(id).bytes) != Matcher::kDead;
    if (allowed == mask->allows(id)) continue;
    if (other == nullptr) other = std::make_shared<TokenMask>(*mask);
    const auto t = static_cast<std::uint32_t>(id);
    other->bits[t / 32] ^= std::uint32_t{1} << (t % 32);
    other->count += allowed ? 1 : -1U;
  }
  return other == nullptr ? mask : kept(known, std::move(other));
}

SharedMask MaskMaker::made(Known& known, Matcher::State state) const {
  Matcher& matcher = known.matcher;
  auto mask = std::make_shared<TokenMask>(vocabulary_->size());
  if (!vocabulary_->nodes().empty()) {
    const Matcher::State rest = add_contents(known, state, *mask);
    if (rest != Matcher::kDead) walk(matcher, 0, rest, false, *mask);
  }
  if (matcher.takes_special(state)) {
    for (const TokenId id : vocabulary_->specials()) {
      if (matcher.step_special(state, vocabulary_->token(id).bytes) != Matcher::kDead) mask->allow(id);
    }
  }
  if (matcher.accepts(state)) {
    for (const TokenId id : vocabulary_->stops()) mask->allow(id);
  }
  for (const std::uint32_t word : mask->bits) mask->count += static_cast<std::uint32_t>(std::popcount(word));
  mask->ends = mask->count == 0 && matcher.accepts(state);
  return kept(known, std::move(mask));
}

// One of those that were made before, where it is the same.
SharedMask MaskMaker::kept(Known& known, std::shared_ptr<TokenMask> mask) const {
  std::uint64_t hash = 0;
  for (const std::uint32_t word : mask->bits) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 29;
  }
  const auto [begin, end] = known.by_content.equal_range(hash);
  const auto same = std::find_if(begin, end, [&](const auto& entry) {
    return entry.second->bits == mask->bits && entry.second->ends == mask->ends;
  });
  if (same != end) return same->second;
  known.by_content.emplace(hash, mask);
  known.mask_bytes += mask->bits.size() * 4 + 128;
  return mask;
}

// The tokens from places within strings. Returns the state of the other places.
Matcher::State MaskMaker::add_contents(Known& known, Matcher::State state, TokenMask& mask) const {
  Matcher& matcher = known.matcher;
  const std::vector<Matcher::Within> strings = matcher.within(state);
  if (strings.empty()) return state;
  const auto nodes = vocabulary_->nodes();
  for (const Matcher::Within& one : strings) {
    budget_.charge(mask.bits.size() / 16);
    const ContentMask& content = known.contents.of(one.rule, one.place.a, one.place.b);
    for (std::size_t i = 0; i < mask.bits.size(); ++i) mask.bits[i] |= content.tokens.bits[i];
    std::uint32_t label = 0;
    Matcher::State behind = Matcher::kDead;
    for (const ContentMask::Leave& leave : content.leaves) {
      if (leave.label != label) behind = matcher.left(one.place, label = leave.label);
      if (behind != Matcher::kDead) add_below(matcher, leave.node, behind, mask);
    }
    for (const ContentMask::Branch& branch : content.branches) {
      const Matcher::State before = matcher.moved(one.place, branch.a, branch.b);
      const Matcher::State at = matcher.step(before, nodes[branch.node].byte);
      if (at != Matcher::kDead) add_below(matcher, branch.node, at, mask);
    }
  }
  return matcher.without(state, strings);
}

// The tokens at a node and below it, from the state that it led to.
void MaskMaker::add_below(Matcher& matcher, std::uint32_t node, Matcher::State state, TokenMask& mask) const {
  const Vocabulary::TrieNode& at = vocabulary_->nodes()[node];
  for (TokenId id = at.token; id >= 0; id = vocabulary_->same_as(id)) mask.allow(id);
  if (at.end > node + 1) walk(matcher, node, state, false, mask);
}

// All tokens below a node of the trie, from the state that it led to. `has_plain`: plain ones are in the mask.
void MaskMaker::walk(Matcher& matcher, std::uint32_t parent, Matcher::State state, bool has_plain,
                     TokenMask& mask) const {
  const auto nodes = vocabulary_->nodes();
  if (!has_plain && matcher.is_free(state)) {
    const auto plain = vocabulary_->plain_tokens();
    for (std::uint32_t i = nodes[parent].plain; i < nodes[parent].plain_end; ++i) mask.allow(plain[i]);
    has_plain = true;
  }
  for (std::uint32_t child = parent + 1; child < nodes[parent].end; child = nodes[child].end) {
    const Vocabulary::TrieNode& node = nodes[child];
    budget_.charge();
    if (has_plain && node.only_plain) return;  // and so are all behind it
    const Matcher::State next = matcher.step(state, node.byte);
    if (next == Matcher::kDead) continue;
    for (TokenId id = node.token; id >= 0; id = vocabulary_->same_as(id)) mask.allow(id);
    if (node.end > child + 1) walk(matcher, child, next, has_plain, mask);
  }
}

void MaskMaker::let_go() {
  known_ = std::make_unique<Known>(program_, *vocabulary_, budget_);
  ++epoch_;
  count_bytes();
}

// The place in what is known now, behind all tokens.
void ReplyConstraint::find_place() {
  if (epoch_ != maker_->epoch_) {
    state_ = maker_->known_->matcher.start();
    placed_ = 0;
    epoch_ = maker_->epoch_;
  }
  for (; placed_ < tokens_.size(); ++placed_) {
    state_ = maker_->step(*maker_->known_, state_, tokens_[placed_]);
    if (state_ == Matcher::kDead) {
      throw std::logic_error("a token was chosen that the reply's grammar does not allow");
    }
  }
}

SharedMask ReplyConstraint::mask(IsWanted wanted) {
  const std::lock_guard<std::mutex> held(maker_->lock_);
  if (maker_->known_->bytes() > maker_->program_->limits.matcher_bytes) {
    maker_->budget_.begin({});
    maker_->let_go();
  }
  maker_->budget_.begin(std::move(wanted));
  try {
    find_place();
    SharedMask mask = within_limit(maker_->mask_at(*maker_->known_, state_));
    maker_->count_bytes();
    return mask;
  } catch (const GrammarError&) {
    maker_->budget_.begin({});
    maker_->let_go();
    throw;
  }
}

SharedMask ReplyConstraint::mask_if_known() {
  const std::unique_lock<std::mutex> held(maker_->lock_, std::try_to_lock);
  constexpr std::size_t kFew = 8;  // tokens, that are soon read again
  if (!held.owns_lock() || (epoch_ != maker_->epoch_ && tokens_.size() > kFew)) return nullptr;
  constexpr std::uint64_t kFewSteps = 50'000;  // about a millisecond
  maker_->budget_.begin({}, kFewSteps);
  try {
    find_place();
  } catch (const GrammarError&) {
    return nullptr;  // mask() says so, or takes its time
  }
  const auto found = maker_->known_->masks.find(state_);
  return found == maker_->known_->masks.end() ? nullptr : within_limit_if_known(found->second);
}

bool ReplyConstraint::accept(TokenId token) {
  const std::lock_guard<std::mutex> held(maker_->lock_);
  maker_->budget_.begin({});
  find_place();
  const Matcher::State next = maker_->step(*maker_->known_, state_, token);
  if (next == Matcher::kDead) return false;
  state_ = next;
  tokens_.push_back(token);
  ++placed_;
  return true;
}

bool ReplyConstraint::may_end() {
  const std::lock_guard<std::mutex> held(maker_->lock_);
  maker_->budget_.begin({});
  find_place();
  return maker_->known_->matcher.accepts(state_);
}

}  // namespace reprise::protocol::grammar
