#pragma once
// CharDfa: a deterministic automaton over code points, with a label at each state where a text may end. From every
// state an accepted text can still be reached: what could not is left out when it is built.
//
// CharProduct builds one from several parts that read the same text side by side: patterns, lengths, bounds of
// numbers, names. A function of what the parts say at the end of a text gives the label; so intersection,
// complement and telling names apart are all one thing.
//
// Threading: a CharDfa is immutable and may be shared; a CharProduct belongs to one thread.

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
  static constexpr std::uint32_t kFarthest = 160;

  struct Edge {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    std::uint32_t target = 0;
  };
  struct State {
    std::uint32_t edges = 0;      // the first of its edges
    std::uint32_t edges_end = 0;  // ascending, and without overlap
    std::uint32_t label = 0;      // 0: a text may not end here
    std::uint32_t alike = 0;  // a state from which texts of up to kFarthest characters have the same labels
    bool free = false;        // texts of plain tokens (vocabulary.h) lead to no other than free states
  };

  std::vector<State> states{};  // begins with 0; empty: no text is accepted
  std::vector<Edge> edges{};

  bool empty() const { return states.empty(); }
  /// Fills in State::alike; states that count far from a bound are one. Too large automata are left as they are.
  void find_alike(WorkBudget& budget);
  /// Fills in State::free, for states that are `usable` alone.
  void find_free(const std::function<bool(std::uint32_t)>& usable, WorkBudget& budget);
  std::uint32_t step(std::uint32_t state, std::uint32_t code_point) const;
  /// Whether one of the characters low to high leads on.
  bool leads_on(std::uint32_t state, std::uint32_t low, std::uint32_t high) const;
  bool leads_on(std::uint32_t state) const { return states[state].edges != states[state].edges_end; }
  bool accepts(std::string_view text) const;  // of valid UTF-8
};

/// What a part of a product says at the end of a text: 0 is no.
using Verdict = std::uint32_t;

class CharPart {
 public:
  using State = std::vector<std::uint32_t>;  // empty: nothing can be said any more but 0

  virtual ~CharPart() = default;
  /// The sets of characters that it tells apart.
  virtual std::vector<CharSet> alphabet() const = 0;
  virtual State start() const = 0;
  /// `c`: any character of a class that no set of the alphabet divides.
  virtual State step(const State& state, std::uint32_t c) const = 0;
  virtual Verdict verdict(const State& state) const = 0;
};

/// Patterns and names charge `budget`, which must outlive them.
std::unique_ptr<CharPart> pattern_part(Nfa nfa, WorkBudget& budget);
std::unique_ptr<CharPart> length_part(std::uint32_t least, std::uint32_t most);  // UINT32_MAX: no bound
/// The verdict is 1 + the index of the name. Names are distinct.
std::unique_ptr<CharPart> names_part(const std::vector<std::string>& names, WorkBudget& budget);

/// A decimal number: digits * 10^-places, with its sign apart.
struct Decimal {
  bool negative = false;
  std::string digits{};    // of the whole part, without zeros in front but one
  std::string fraction{};  // without zeros at its end

  /// Nothing for what has too many digits to be written out.
  static std::optional<Decimal> of(const Json& number);
};

// Of numbers in decimal: the text is a JSON number without an exponent.

/// The verdict: 1 below the bound, 2 equal, 3 above it.
std::unique_ptr<CharPart> compared_to(const Decimal& bound);

/// Yes for multiples of it. Throws GrammarError for a divisor of too many digits.
std::unique_ptr<CharPart> multiple_of(const Decimal& divisor);

/// Yes where it says no.
std::unique_ptr<CharPart> negated_part(std::unique_ptr<CharPart> part);

class CharProduct {
 public:
  explicit CharProduct(WorkBudget& budget) : budget_(budget) {}

  /// `needed`: a text of which this part says 0 has no label.
  void add(std::unique_ptr<CharPart> part, bool needed = true) {
    parts_.push_back(std::move(part));
    needed_.push_back(needed);
  }
  bool empty() const { return parts_.empty(); }

  using Label = std::function<std::uint32_t(std::span<const Verdict>)>;
  CharDfa build(const Label& label);
  /// Label 1 where every part says yes.
  CharDfa build();

 private:
  WorkBudget& budget_;
  std::vector<std::unique_ptr<CharPart>> parts_;
  std::vector<bool> needed_;
};

}  // namespace reprise::protocol::grammar
