#pragma once
// MaskMaker: the masks of one grammar over one vocabulary; ReplyConstraint: where one reply stands in it.
//
// A mask is made by walking the vocabulary's trie along with the matcher, and kept by the matcher's state: whoever
// comes to the same place again, in this reply or in another with the same grammar, finds it. Within strings most of
// it does not depend on the state, and is kept apart (ContentMasks): what is walked then are tokens that end the string.
//
// Memory is bounded (Limits::matcher_bytes): when states and masks are more, all are let go, and each reply finds
// its place again from the tokens that it has. One mask is bounded as well (Limits::mask_steps, mask_bytes): what takes
// more is a GrammarError, and leaves nothing behind.
//
// Threading: a MaskMaker may be shared, and does one thing at a time behind its lock. A ReplyConstraint belongs to
// one reply.

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
  /// Throws GrammarError where already the grammar's beginning takes too much.
  MaskMaker(std::shared_ptr<const Program> program, std::shared_ptr<const Vocabulary> vocabulary);
  ~MaskMaker();

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  /// What is kept, about; of the program itself as well.
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
  mutable WorkBudget budget_;  // of the mask that is being made
  std::unique_ptr<Known> known_;
  std::uint64_t epoch_ = 1;                 // of known_
  std::unique_ptr<const Closing> closing_;  // made when a reply first comes near its limit
  std::atomic<std::size_t> bytes_{0};
};

class ReplyConstraint {
 public:
  static constexpr std::size_t kUnlimited = SIZE_MAX;

  /// `max_tokens`: of the reply. Where the grammar allows, its last masks bring it to its end before that.
  explicit ReplyConstraint(std::shared_ptr<MaskMaker> maker, std::size_t max_tokens = kUnlimited)
      : maker_(std::move(maker)), max_tokens_(max_tokens) {}

  /// Of the next token. Throws GrammarError where it takes too much, or is not `wanted` any more.
  SharedMask mask(IsWanted wanted = {});
  /// The same, if it is known and nobody else is at work on the grammar: it never takes long. Null: mask() makes it.
  SharedMask mask_if_known();
  /// The token that came. False: it was not allowed.
  bool accept(TokenId token);
  /// The same, but that it is only noted; the next call looks at it, and throws std::logic_error where it was not allowed.
  void note(TokenId token) { tokens_.push_back(token); }
  /// The reply could end here.
  bool may_end();
  /// A mask had fewer tokens than the grammar allows, since the reply was near its limit and not whole.
  bool is_narrowed() const { return narrowed_; }

 private:
  void find_place();

  SharedMask within_limit(SharedMask mask);
  SharedMask within_limit_if_known(SharedMask mask) const;
  SharedMask find_within_limit(const SharedMask& mask);
  SharedMask closing_mask(std::size_t left, const SharedMask& mask);

  std::shared_ptr<MaskMaker> maker_;
  std::uint64_t epoch_ = 0;
  Matcher::State state_ = Matcher::kDead;  // behind the first `placed_` tokens
  std::size_t placed_ = 0;
  TokenList tokens_;
  std::size_t max_tokens_ = kUnlimited;
  std::shared_ptr<const ClosingText> closing_;  // what the reply becomes; null: that is open
  std::size_t closed_at_ = 0;                   // tokens before it
  bool narrowed_ = false;
  bool gave_up_ = false;  // the reply cannot be closed
};

}  // namespace reprise::protocol::grammar
