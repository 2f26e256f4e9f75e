#pragma once
// ConstraintBook: the grammars that requests to one model keep to, each compiled once and shared by all requests of one
// namespace that ask for the same: how long the first takes tells nobody else whether it was there. When there are too many, or all
// together hold too much, the tenant with the most loses the one that it used longest ago: nobody can push out the others'.
// One that goes lives on while a reply keeps to it.
//
// Threading: any thread. Compiling may take long (protocol/grammar/work_budget.h has the bound), and holds up nobody
// else.

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

class ConstraintBook {
 public:
  static constexpr std::size_t kMostGrammars = 256;
  static constexpr std::size_t kMostBytes = 256U << 20;

  /// `stops`: tokens that end a reply. `vocab`: of the model's logits. `most_bytes`: that grammars may hold, with what
  /// is kept of their masks; the one asked for last stays, however large.
  ConstraintBook(std::shared_ptr<const models::Tokenizer> tokenizer, std::vector<TokenId> stops,
                 std::size_t vocab, std::size_t most_bytes = kMostBytes);

  using Maker = std::shared_ptr<protocol::grammar::MaskMaker>;
  /// `tenant`: whose it is, by name; empty where clients are not told apart. `name_space`: protocol/name_space.h. `wanted`: whether the client still waits. The error says what is wrong with the constraint, or which limit it exceeds.
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
  const std::size_t most_bytes_;
  std::once_flag vocabulary_once_;  // made when somebody first needs it
  std::shared_ptr<const protocol::grammar::Vocabulary> vocabulary_;
  mutable std::mutex lock_;
  struct Entry {
    std::string key;
    std::string tenant;  // who asked for it first
    Maker maker;

    std::size_t bytes() const { return key.size() + maker->bytes(); }
  };
  std::list<Entry> grammars_;  // the one used last first
};

}  // namespace reprise::actors
