#include "actors/served/constraint_book.h"

#include <algorithm>
#include <iterator>

#include "protocol/grammar/compile.h"

namespace reprise::actors {

using protocol::grammar::Constraint;
using protocol::grammar::MaskMaker;
using protocol::grammar::Vocabulary;

ConstraintBook::ConstraintBook(std::shared_ptr<const models::Tokenizer> tokenizer, std::vector<TokenId> stops,
                               std::size_t vocab, std::size_t most_bytes)
    : tokenizer_(std::move(tokenizer)), stops_(std::move(stops)), vocab_(vocab), most_bytes_(most_bytes) {}

std::shared_ptr<const Vocabulary> ConstraintBook::vocabulary() {
  std::call_once(vocabulary_once_, [this] {
    std::vector<Vocabulary::Token> tokens;
    const std::size_t count = std::min(tokenizer_->vocab_size(), vocab_);
    tokens.reserve(count);
    for (std::size_t id = 0; id < count; ++id) {
      const auto token = static_cast<TokenId>(id);
      tokens.push_back({std::string(tokenizer_->token_bytes(token)), tokenizer_->is_special(token)});
    }
    vocabulary_ = std::make_shared<const Vocabulary>(std::move(tokens), stops_, vocab_);
  });
  return vocabulary_;
}

Outcome<ConstraintBook::Maker, std::string> ConstraintBook::find(const Constraint& constraint,
                                                                 std::string_view name_space,
                                                                 protocol::grammar::IsWanted wanted) {
  const std::string key =
      std::to_string(name_space.size()) + ':' + std::string(name_space) + constraint.key();
  const auto kept = [&]() -> Maker {
    const auto found = std::find_if(grammars_.begin(), grammars_.end(),
                                    [&](const auto& entry) { return entry.first == key; });
    if (found == grammars_.end()) return nullptr;
    grammars_.splice(grammars_.begin(), grammars_, found);
    return found->second;
  };
  {
    const std::lock_guard<std::mutex> held(lock_);
    if (Maker maker = kept()) {
      let_go();
      return maker;
    }
  }
  auto program = protocol::grammar::compile(constraint, {}, wanted);
  if (!program.ok()) return program.error();
  Maker made;
  try {
    made = std::make_shared<MaskMaker>(std::move(*program), vocabulary());
    // Every reply needs it, and a grammar that takes too much mostly does so here, before anything is computed.
    static_cast<void>(protocol::grammar::ReplyConstraint(made).mask(std::move(wanted)));
  } catch (const protocol::grammar::GrammarError& error) {
    return std::string(error.what());
  }
  const std::lock_guard<std::mutex> held(lock_);
  if (Maker maker = kept()) return maker;  // another was faster
  grammars_.emplace_front(key, made);
  let_go();
  return made;
}

// Those used longest ago, as long as all are too many or hold too much. Grammars grow while they are used: so this is
// looked at whenever one is asked for.
void ConstraintBook::let_go() {
  std::size_t held = 0;
  std::size_t count = 0;
  for (auto at = grammars_.begin(); at != grammars_.end();) {
    held += at->first.size() + at->second->bytes();
    ++count;
    const bool stays = count == 1 || (count <= kMostGrammars && held <= most_bytes_);
    at = stays ? std::next(at) : grammars_.erase(at);
  }
}

std::size_t ConstraintBook::grammars() const {
  const std::lock_guard<std::mutex> held(lock_);
  return grammars_.size();
}

std::size_t ConstraintBook::bytes() const {
  const std::lock_guard<std::mutex> held(lock_);
  std::size_t sum = 0;
  for (const auto& [key, maker] : grammars_) sum += key.size() + maker->bytes();
  return sum;
}

}  // namespace reprise::actors
