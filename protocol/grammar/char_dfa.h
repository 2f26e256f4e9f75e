#pragma once
// CharDfa: a deterministic automaton over code points, with a label on each accepting state. States from
// which no accepting state can be reached are removed during construction.
//
// CharProduct builds a CharDfa as the product of several parts that read the same text: patterns, length
// limits, numeric bounds, names. A function maps the parts' verdicts at the end of a text to its label, which
// covers intersection, complement and telling names apart.
//
// Threading: a CharDfa is immutable and may be shared; a CharProduct is used by one thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/grammar/characters.h"
#include "protocol/grammar/work_budget.h"

namespace reprise {
class Json;
}

namespace reprise::protocol::grammar {

struct Nfa;

struct CharDfa {
  static constexpr std::uint32_t kDead = UINT32_MAX;
  static constexpr std::uint32_t kMaxDistance = 160;

  struct Edge {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    std::uint32_t target = 0;
  };
  struct State {
    std::uint32_t edges = 0;      // index of its first edge
    std::uint32_t edges_end = 0;  // index after its last edge; edges are sorted and do not overlap
    std::uint32_t label = 0;      // 0: not accepting
    std::uint32_t alike =
        0;              // a state that gives the same labels to all texts of up to kMaxDistance characters
    bool free = false;  // plain tokens (vocabulary.h) lead from here to free states only
  };

  std::vector<State> states{};  // state 0 is the start; empty: no text is accepted
  std::vector<Edge> edges{};

  bool empty() const { return states.empty(); }
  /// Sets State::alike, which merges states that are far from a counter's bound. Does nothing for automata
  /// above a size limit.
  void find_alike(WorkBudget& budget);
  /// Sets State::free, considering only states for which `usable` returns true.
  void find_free(const std::function<bool(std::uint32_t)>& usable, WorkBudget& budget);
  std::uint32_t step(std::uint32_t state, std::uint32_t code_point) const;
  /// Returns whether an edge accepts some character in [low, high].
  bool leads_on(std::uint32_t state, std::uint32_t low, std::uint32_t high) const;
  bool leads_on(std::uint32_t state) const { return states[state].edges != states[state].edges_end; }
  bool accepts(std::string_view text) const;  // Requires: `text` is valid UTF-8.
};

/// Result of a part at the end of a text; 0: does not match.
using Verdict = std::uint32_t;

class CharPart {
 public:
  using State = std::vector<std::uint32_t>;  // empty: the verdict is 0 whatever follows

  virtual ~CharPart() = default;
  /// Returns the character sets that the part distinguishes.
  virtual std::vector<CharSet> alphabet() const = 0;
  virtual State start() const = 0;
  /// `c` represents a class of characters that no set of the alphabet divides.
  virtual State step(const State& state, std::uint32_t c) const = 0;
  virtual Verdict verdict(const State& state) const = 0;
};

/// Pattern and names parts charge `budget`, which must outlive them.
std::unique_ptr<CharPart> pattern_part(Nfa nfa, WorkBudget& budget);
// limits in characters; UINT32_MAX: none
std::unique_ptr<CharPart> length_part(std::uint32_t min, std::uint32_t max);
/// The verdict is 1 + the index of the matching name. Requires: names are distinct.
std::unique_ptr<CharPart> names_part(const std::vector<std::string>& names, WorkBudget& budget);

/// A decimal number as digits: [-]digits.fraction.
struct Decimal {
  bool negative = false;
  std::string digits{};    // integer part without leading zeros; "0" if zero
  std::string fraction{};  // without trailing zeros

  /// Returns nothing if the number has too many digits.
  static std::optional<Decimal> of(const Json& number);
};

// Parts for numbers. The text is a JSON number without an exponent.

/// Verdict: 1 below the bound, 2 equal, 3 above.
std::unique_ptr<CharPart> compared_to(const Decimal& bound);

/// Verdict: 1 for multiples. Throws GrammarError if the divisor has too many digits.
std::unique_ptr<CharPart> multiple_of(const Decimal& divisor);

/// Verdict: 1 where the part's is 0, and 0 otherwise.
std::unique_ptr<CharPart> negated_part(std::unique_ptr<CharPart> part);

class CharProduct {
 public:
  explicit CharProduct(WorkBudget& budget) : budget_(budget) {}

  /// `needed`: texts that this part does not match are rejected.
  void add(std::unique_ptr<CharPart> part, bool needed = true) {
    parts_.push_back(std::move(part));
    needed_.push_back(needed);
  }
  bool empty() const { return parts_.empty(); }

  using Label = std::function<std::uint32_t(std::span<const Verdict>)>;
  CharDfa build(const Label& label);
  /// Gives label 1 to texts that all parts match.
  CharDfa build();

 private:
  WorkBudget& budget_;
  std::vector<std::unique_ptr<CharPart>> parts_;
  std::vector<bool> needed_;
};

}  // namespace reprise::protocol::grammar
