#pragma once
// MaskMaker computes the token masks of one grammar for one vocabulary. ReplyConstraint tracks one reply.
//
// A mask is computed by walking the vocabulary's trie with the matcher, and cached by matcher state for all
// replies with this grammar. Inside strings most of a mask does not depend on the state and is cached
// separately (ContentMasks); only tokens that end the string are walked.
//
// Memory is bounded (Limits::matcher_bytes): above the limit all states and masks are dropped, and each reply
// recomputes its state from its tokens. Each mask is bounded too (Limits::mask_steps, mask_bytes): exceeding
// them throws a GrammarError and leaves the cache unchanged.
//
// Threading: a MaskMaker may be shared and is locked internally. A ReplyConstraint is used by one reply.

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/token_mask.h"
#include "protocol/grammar/matcher.h"

namespace reprise::protocol::grammar {

class Closing;
class Vocabulary;
struct ClosingText;

class MaskMaker {
 public:
  /// Throws GrammarError if the grammar's first mask exceeds the limits.
  MaskMaker(std::shared_ptr<const Program> program, std::shared_ptr<const Vocabulary> vocabulary);
  ~MaskMaker();

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  /// Returns the approximate memory of the caches and the program.
  std::size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  friend class ReplyConstraint;

  struct Known;
  struct Closable;

  Matcher::State step(Known& known, Matcher::State state, TokenId token) const;
  SharedMask mask_at(Known& known, Matcher::State state) const;
  SharedMask made(Known& known, Matcher::State state) const;
  SharedMask with_long_tokens(Known& known, Matcher::State state, const SharedMask& mask) const;
  SharedMask kept(Known& known, std::shared_ptr<TokenMask> mask) const;
  Matcher::State add_contents(Known& known, Matcher::State state, TokenMask& mask) const;
  void add_below(Matcher& matcher, std::uint32_t node, Matcher::State state, TokenMask& mask) const;
  void walk(Matcher& matcher, std::uint32_t parent, Matcher::State state, bool has_plain,
            TokenMask& mask) const;
  void let_go();
  std::uint32_t tokens_to_end(Known& known, Matcher::State state) const;
  Closable closable(Known& known, Matcher::State state, std::size_t left) const;
  void count_bytes();

  const std::shared_ptr<const Program> program_;
  const std::shared_ptr<const Vocabulary> vocabulary_;
  const std::size_t program_bytes_;
  std::mutex lock_;
  mutable WorkBudget budget_;  // budget of the mask being computed
  std::unique_ptr<Known> known_;
  std::uint64_t epoch_ = 1;                 // version of known_; changes when the caches are dropped
  std::unique_ptr<const Closing> closing_;  // created when a reply first comes near its limit
  std::atomic<std::size_t> bytes_{0};
};

class ReplyConstraint {
 public:
  static constexpr std::size_t kUnlimited = SIZE_MAX;

  /// `max_tokens`: limit of the reply. If the grammar allows, the last masks complete the reply within it.
  explicit ReplyConstraint(std::shared_ptr<MaskMaker> maker, std::size_t max_tokens = kUnlimited)
      : maker_(std::move(maker)), max_tokens_(max_tokens) {}

  /// Returns the mask of the next token. Throws GrammarError if that exceeds the limits or `wanted` returns
  /// false.
  SharedMask mask(IsWanted wanted = {});
  /// Returns the mask if it is cached and no other thread uses the grammar; never blocks. Null: call mask().
  SharedMask mask_if_known();
  /// Advances by the generated token. Returns false if the mask did not allow it.
  bool accept(TokenId token);
  /// Records a token without checking it. The next call checks it and throws std::logic_error if it was not
  /// allowed.
  void note(TokenId token) { tokens_.push_back(token); }
  bool may_end();
  /// Returns whether any mask was restricted because an incomplete reply was near its limit.
  bool is_narrowed() const { return narrowed_; }

 private:
  void update_state();

  SharedMask within_limit(SharedMask mask);
  SharedMask within_limit_if_known(SharedMask mask) const;
  SharedMask find_within_limit(const SharedMask& mask);
  SharedMask closing_mask(std::size_t left, const SharedMask& mask);

  std::shared_ptr<MaskMaker> maker_;
  std::uint64_t epoch_ = 0;
  Matcher::State state_ = Matcher::kDead;  // after the first `covered_` tokens
  std::size_t covered_ = 0;
  TokenList tokens_;
  std::size_t max_tokens_ = kUnlimited;
  std::shared_ptr<const ClosingText> closing_;  // the text that completes the reply; null: not decided
  std::size_t closed_at_ = 0;                   // number of tokens before that text
  bool narrowed_ = false;
  bool gave_up_ = false;  // the reply cannot be completed within the limit
};

}  // namespace reprise::protocol::grammar
