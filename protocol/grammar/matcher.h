#pragma once
// Matcher: a lazily built deterministic automaton over bytes for a compiled grammar. A state is the set of
// all program locations, each with its stack, that the bytes so far may have led to. States and transitions
// are cached, so a repeated step is one table lookup.
//
// Every state except kDead can reach the end of the grammar: dead ends were removed from the program, and a
// byte that would make an object impossible to complete is rejected.
//
// Memory: bytes() is the size of the caches, which are never trimmed; the owner replaces the matcher when it
// grows too large (mask_maker.h).
//
// Threading: one thread at a time.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "protocol/grammar/characters.h"
#include "protocol/grammar/endings.h"
#include "protocol/grammar/location.h"
#include "protocol/grammar/program.h"
#include "protocol/grammar/work_budget.h"

namespace reprise::protocol::grammar {

/// The rule for the characters of a JSON string or key, independent of the context.
struct ContentRule {
  std::uint32_t dfa = kNowhere;     // kNowhere: any characters, within the counts below
  std::uint32_t min = 0;            // minimum characters
  std::uint32_t max = kUnbounded;   // maximum characters, capped where no token can tell the difference
  std::uint32_t object = kNowhere;  // for keys: the ObjectSpec, if it allows undeclared keys

  auto operator<=>(const ContentRule&) const = default;
};

class Matcher {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0;

  /// All work is charged to `budget`, which must outlive the matcher.
  Matcher(std::shared_ptr<const Program> program, WorkBudget& budget);

  State start() const { return start_; }
  /// Returns the next state, or kDead. Throws GrammarError if a state has too many locations or the budget is
  /// exceeded.
  State step(State state, std::uint8_t byte) {
    const StateData& data = states_[state];
    if (data.next != nullptr) {
      if ((*data.next)[byte] != kUnknown) return (*data.next)[byte];
    } else {
      for (std::size_t i = 0; i < data.few_count; ++i) {
        if (data.few_bytes[i] == byte) return data.few[i];
      }
    }
    return find_step(state, byte);
  }
  State step(State state, std::string_view bytes);
  /// Steps by a special token, which matches a mark with the same text or is part of free text.
  State step_special(State state, std::string_view text);

  bool accepts(State state) const { return states_[state].accepts; }
  /// Returns whether all plain tokens (vocabulary.h) may follow.
  bool is_free(State state) const { return states_[state].free; }
  /// Returns whether a special token may follow, as a mark or in free text.
  bool takes_special(State state) const { return states_[state].takes_special; }
  std::size_t bytes() const { return bytes_ + stacks_.bytes(); }

  /// Returns a representative state that allows the same tokens of up to kManyChars characters: counts far
  /// from their bounds are merged.
  State typical(State state);
  static constexpr std::uint32_t kManyChars = CharDfa::kMaxDistance;

  /// A location within a string or key. The characters allowed until the string ends do not depend on the
  /// state.
  struct Within {
    ContentRule rule{};
    Location location{};
    std::uint32_t index = 0;  // index among the state's locations
  };
  /// Returns the state's locations within strings that can be treated independently.
  std::vector<Within> within(State state) const;
  /// Returns the state without these locations.
  State without(State state, const std::vector<Within>& these);
  /// left(): the state after the closing quote, if the automaton accepts with that label. moved(): the state
  /// at another location of the same string.
  State left(const Location& location, std::uint32_t label);
  State moved(Location location, std::uint32_t a, std::uint32_t b);
  State alone(State state, const Within& one);

  /// Returns a short text that completes the reply from this state; nothing if none is known.
  std::optional<Ending> ending(State state, const Endings& endings);

 private:
  static constexpr State kUnknown = UINT32_MAX;
  using Transitions = std::array<State, 256>;
  static constexpr std::size_t kFew = 6;

  struct StateData {
    std::vector<Location> locations{};
    std::unique_ptr<Transitions> next{};  // null: the transitions are in few
    std::array<State, kFew> few{};
    std::array<std::uint8_t, kFew> few_bytes{};
    std::uint8_t few_count = 0;
    bool accepts = false;
    bool takes_special = false;
    bool free = false;
  };

  State find_step(State state, std::uint8_t byte);
  void keep_step(StateData& data, std::uint8_t byte, State next);
  State intern(std::vector<Location> open, bool accepts = false);
  void close(std::vector<Location>& open, std::vector<Location>& locations, bool& accepts);
  bool first_met(const Location& location);
  void keep_bytes(std::size_t bytes) {
    bytes_ += bytes;
    budget_.take(bytes);
  }
  void enter(NodeId node, std::uint32_t stack, std::vector<Location>& open) const;
  void leave(std::uint32_t stack, std::vector<Location>& open, bool& accepts);
  void advance(const Location& location, std::uint8_t byte, std::vector<Location>& open);
  void advance_string(const Location& location, std::uint8_t byte, std::vector<Location>& open);
  void advance_dfa(const Location& location, std::uint8_t byte, std::vector<Location>& open);
  void advance_embedded(const Location& location, std::uint8_t byte, std::vector<Location>& open);
  void leave_key(const Location& location, std::uint32_t label, std::vector<Location>& open);
  bool leads_to_free(const Location& location) const;
  void advance_object(const Location& location, std::uint8_t byte, std::vector<Location>& open);
  void advance_key(const Location& location, std::uint8_t byte, std::vector<Location>& open);
  void advance_array(const Location& location, std::uint8_t byte, std::vector<Location>& open);

  const std::shared_ptr<const Program> program_;
  WorkBudget& budget_;
  Stacks stacks_;
  std::vector<Location> met_;             // locations seen by close(), in order
  std::vector<std::uint32_t> met_table_;  // hash table for many locations: 1 + index into met_
  std::vector<StateData> states_;
  std::unordered_multimap<std::uint64_t, State> state_index_;
  std::size_t bytes_ = 0;
  State start_ = kDead;
};

}  // namespace reprise::protocol::grammar
