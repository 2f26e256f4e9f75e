#pragma once
// ContentMasks: the tokens that stay within a JSON string, from a place in it, and where in the trie others leave it.
//
// What may stand in a string does not depend on what the string stands in: so this is found once for each place of a
// rule and kept, while what follows the closing quote is looked at by whoever knows the whole state (mask_maker.h).
// Most tokens stay within: the rest of a mask is little work.
//
// Threading: one thread at a time.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "protocol/grammar/content_rule.h"
#include "protocol/grammar/vocabulary.h"

namespace reprise::protocol::grammar {

struct ContentMask {
  explicit ContentMask(TokenMask stay) : tokens(std::move(stay)) {}

  TokenMask tokens;  // that stay within
  /// The closing quote: a node of the trie, and the label of the automaton there (1 without one).
  struct Leave {
    std::uint32_t node = 0;
    std::uint32_t label = 0;
  };
  std::vector<Leave> leaves{};
  /// Keys alone: by the byte of this node it can only become a property's name, and which of these are there already
  /// decides. a, b: the place before that byte.
  struct Branch {
    std::uint32_t node = 0;
    std::uint32_t a = 0;
    std::uint32_t b = 0;
  };
  std::vector<Branch> branches{};

  std::size_t bytes() const {
    return sizeof *this + tokens.bits.size() * 4 + leaves.size() * sizeof(Leave) +
           branches.size() * sizeof(Branch);
  }
};

class ContentMasks {
 public:
  ContentMasks(const Program& program, const Vocabulary& vocabulary, WorkBudget& budget)
      : program_(program), vocabulary_(vocabulary), budget_(budget) {}

  /// a: state of the automaton, or characters so far; b: CharProgress. Valid until another is asked for.
  const ContentMask& of(const ContentRule& rule, std::uint32_t a, std::uint32_t b);
  std::size_t bytes() const { return bytes_; }

 private:
  using Local = std::int32_t;  // a place within the string, by number
  static constexpr Local kUnknown = -1;
  static constexpr Local kOut = -2;
  static constexpr Local kLeaves = -3;
  struct Machine;
  struct Walk;

  void keep_bytes(std::size_t bytes) {
    bytes_ += bytes;
    budget_.take(bytes);
  }
  Machine& machine_of(const ContentRule& rule);
  Local find_step(Machine& machine, Local from, std::uint8_t byte);
  Local number_of(Machine& machine, std::uint32_t a, std::uint32_t b, bool branches);
  void walk(Walk& walk, std::uint32_t parent, Local at, bool has_plain);
  bool mostly_free(Machine& machine, Local at);

  const Program& program_;
  const Vocabulary& vocabulary_;
  WorkBudget& budget_;
  std::map<ContentRule, std::shared_ptr<Machine>> machines_;
  std::map<std::tuple<ContentRule, std::uint32_t, std::uint32_t>, std::unique_ptr<ContentMask>> masks_;
  std::size_t bytes_ = 0;
};

}  // namespace reprise::protocol::grammar
