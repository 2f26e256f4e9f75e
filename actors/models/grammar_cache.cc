#include "actors/models/grammar_cache.h"

#include <algorithm>
#include <map>

#include "protocol/grammar/compile.h"
#include "protocol/grammar/vocabulary.h"

namespace reprise::actors {

using protocol::grammar::Constraint;
using protocol::grammar::MaskMaker;
using protocol::grammar::Vocabulary;

GrammarCache::GrammarCache(std::shared_ptr<const models::Tokenizer> tokenizer, std::vector<TokenId> stops,
                           std::size_t vocab, std::size_t max_bytes)
    : tokenizer_(std::move(tokenizer)), stops_(std::move(stops)), vocab_(vocab), max_bytes_(max_bytes) {}

std::shared_ptr<const Vocabulary> GrammarCache::vocabulary() {
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

Outcome<GrammarCache::Maker, std::string> GrammarCache::find(const Constraint& constraint,
                                                             std::string_view name_space,
                                                             protocol::grammar::IsWanted wanted,
                                                             const std::string& tenant) {
  const std::string key =
      std::to_string(name_space.size()) + ':' + std::string(name_space) + constraint.key();
  const auto kept = [&]() -> Maker {
    const auto found =
        std::find_if(grammars_.begin(), grammars_.end(), [&](const auto& entry) { return entry.key == key; });
    if (found == grammars_.end()) return nullptr;
    grammars_.splice(grammars_.begin(), grammars_, found);
    return found->maker;
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
    // Every reply needs the first mask, and an excessive grammar usually exceeds its budget here, before any
    // prefill.
    static_cast<void>(protocol::grammar::ReplyConstraint(made).mask(std::move(wanted)));
  } catch (const protocol::grammar::GrammarError& error) {
    return std::string(error.what());
  }
  const std::lock_guard<std::mutex> held(lock_);
  if (Maker maker = kept()) return maker;  // another thread was faster
  grammars_.push_front({key, tenant, made});
  let_go();
  return made;
}

// Grammars grow with use, so the limits are checked whenever one is requested.
void GrammarCache::let_go() {
  struct Share {
    std::size_t count = 0;
    std::size_t bytes = 0;
    std::list<Entry>::iterator oldest{};
  };
  while (grammars_.size() > 1) {
    std::map<std::string_view, Share> shares;
    std::size_t held = 0;
    for (auto at = grammars_.begin(); at != grammars_.end(); ++at) {
      const std::size_t bytes = at->bytes();
      held += bytes;
      if (at == grammars_.begin()) continue;  // the most recent one stays
      Share& share = shares[at->tenant];
      ++share.count;
      share.bytes += bytes;
      share.oldest = at;
    }
    const bool too_many = grammars_.size() > kMaxGrammars;
    if (!too_many && held <= max_bytes_) return;
    // The most recent grammar counts for its tenant if that has others.
    const auto own = shares.find(grammars_.front().tenant);
    if (own != shares.end()) {
      ++own->second.count;
      own->second.bytes += grammars_.front().bytes();
    }
    const auto most = std::max_element(shares.begin(), shares.end(), [&](const auto& a, const auto& b) {
      return too_many ? a.second.count < b.second.count : a.second.bytes < b.second.bytes;
    });
    grammars_.erase(most->second.oldest);
  }
}

std::size_t GrammarCache::grammars() const {
  const std::lock_guard<std::mutex> held(lock_);
  return grammars_.size();
}

std::size_t GrammarCache::bytes() const {
  const std::lock_guard<std::mutex> held(lock_);
  std::size_t sum = 0;
  for (const Entry& entry : grammars_) sum += entry.bytes();
  return sum;
}

}  // namespace reprise::actors
