#pragma once
// GrammarCache: caches the compiled grammars of requests to one model. Requests of one namespace share a
// grammar; namespaces do not, so that the time of a compilation reveals nothing to others. Beyond the limits
// on number or bytes, the tenant with the most loses its least recently used grammar, so that no tenant can
// displace the others'. Replies keep evicted grammars alive.
//
// Threading: any thread. Compiling may take long (bounded by protocol/grammar/work_budget.h) and blocks no
// other caller.

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/outcome.h"
#include "base/token.h"
#include "models/text/tokenizer.h"
#include "protocol/grammar/constraint.h"
#include "protocol/grammar/mask_maker.h"

namespace reprise::actors {

class GrammarCache {
 public:
  static constexpr std::size_t kMaxGrammars = 256;
  static constexpr std::size_t kMaxBytes = 256U << 20;

  /// `stops`: tokens that end a reply. `vocab`: size of the model's logits. `max_bytes`: of all grammars
  /// with their cached masks; the most recently used grammar stays even if it is larger.
  GrammarCache(std::shared_ptr<const models::Tokenizer> tokenizer, std::vector<TokenId> stops,
               std::size_t vocab, std::size_t max_bytes = kMaxBytes);

  using Maker = std::shared_ptr<protocol::grammar::MaskMaker>;
  /// Returns the compiled grammar, or an error that says what is wrong with the constraint or which limit it
  /// exceeds. `tenant`: its name; empty if clients are not distinguished. `name_space`: see
  /// protocol/name_space.h. `wanted`: returns false once the client has left.
  Outcome<Maker, std::string> find(const protocol::grammar::Constraint& constraint,
                                   std::string_view name_space = {}, protocol::grammar::IsWanted wanted = {},
                                   const std::string& tenant = {});

  std::size_t grammars() const;
  std::size_t bytes() const;

 private:
  void let_go();
  std::shared_ptr<const protocol::grammar::Vocabulary> vocabulary();

  const std::shared_ptr<const models::Tokenizer> tokenizer_;
  const std::vector<TokenId> stops_;
  const std::size_t vocab_;
  const std::size_t max_bytes_;
  std::once_flag vocabulary_once_;  // built at first use
  std::shared_ptr<const protocol::grammar::Vocabulary> vocabulary_;
  mutable std::mutex lock_;
  struct Entry {
    std::string key;
    std::string tenant;  // the first to request it
    Maker maker;

    std::size_t bytes() const { return key.size() + maker->bytes(); }
  };
  std::list<Entry> grammars_;  // most recently used first
};

}  // namespace reprise::actors
