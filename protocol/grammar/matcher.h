#pragma once
// Matcher: which bytes may follow, for a compiled grammar. It is made deterministic as far as it is walked: a state
// is the set of all places in the grammar that the bytes so far may have led to, each with its stack; states and
// transitions are kept, so that a place that was met before costs one look into a table.
//
// From every state but kDead some text leads to the end: what could not come to an end was taken out of the program,
// and what depends on the members of an object so far is looked at before a byte is let in.
//
// Memory: bytes() tells what is kept. A matcher is thrown away and begun anew when that is over its bound (mask_maker.h).
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
#include "protocol/grammar/places.h"
#include "protocol/grammar/program.h"
#include "protocol/grammar/work_budget.h"

namespace reprise::protocol::grammar {

/// What the characters of a JSON string or key must be, whatever it stands in.
struct ContentRule {
  std::uint32_t dfa = kNowhere;     // kNowhere: any characters, and
  std::uint32_t least = 0;          // so many of them
  std::uint32_t most = kUnbounded;  // no higher than can matter to a token
  std::uint32_t object = kNowhere;  // keys: its ObjectSpec, which has room for keys that are no property's

  auto operator<=>(const ContentRule&) const = default;
};

class Matcher {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0;

  /// `budget` is charged for all of its work, and must outlive it.
  Matcher(std::shared_ptr<const Program> program, WorkBudget& budget);

  State start() const { return start_; }
  /// Throws GrammarError where a state would have too many places, or the budget is used up.
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
  /// By a special token: stands for a mark of the same text, or is part of free text.
  State step_special(State state, std::string_view text);

  /// The reply may end here.
  bool accepts(State state) const { return states_[state].accepts; }
  /// All plain tokens (vocabulary.h) may follow, whatever else may.
  bool is_free(State state) const { return states_[state].free; }
  /// A special token may follow: there is a mark or free text.
  bool takes_special(State state) const { return states_[state].takes_special; }
  std::size_t bytes() const { return bytes_ + stacks_.bytes(); }

  /// A state with the same tokens of up to kManyChars characters: counts that are far from their bounds are as one.
  State typical(State state);
  static constexpr std::uint32_t kManyChars = CharDfa::kFarthest;

  /// A place within a string or key; what may stand there until it is left is the same in every state.
  struct Within {
    ContentRule rule{};
    Place place{};
    std::uint32_t index = 0;  // among the state's places
  };
  /// All places of the state that are within strings, as far as that can be said for each alone.
  std::vector<Within> within(State state) const;
  /// The state without these.
  State without(State state, const std::vector<Within>& these);
  /// From there by the closing quote, where the automaton has that label; and to another place of the same string.
  State left(const Place& place, std::uint32_t label);
  State moved(Place place, std::uint32_t a, std::uint32_t b);
  /// One of the state's places alone.
  State alone(State state, const Within& one);

  /// A short text by which the reply ends from there; nothing: none is known.
  std::optional<Ending> ending(State state, const Endings& endings);

 private:
  static constexpr State kUnknown = UINT32_MAX;
  using Transitions = std::array<State, 256>;
  static constexpr std::size_t kFew = 6;

  struct StateData {
    std::vector<Place> places{};
    std::unique_ptr<Transitions> next{};  // null: they are few
    std::array<State, kFew> few{};
    std::array<std::uint8_t, kFew> few_bytes{};
    std::uint8_t few_count = 0;
    bool accepts = false;
    bool takes_special = false;
    bool free = false;
  };

  State find_step(State state, std::uint8_t byte);
  void keep_step(StateData& data, std::uint8_t byte, State next);
  State intern(std::vector<Place> open, bool accepts = false);
  void close(std::vector<Place>& open, std::vector<Place>& places, bool& accepts);
  bool first_met(const Place& place);
  void keep_bytes(std::size_t bytes) {
    bytes_ += bytes;
    budget_.take(bytes);
  }
  void enter(NodeId node, std::uint32_t stack, std::vector<Place>& open) const;
  void leave(std::uint32_t stack, std::vector<Place>& open, bool& accepts);
  void advance(const Place& place, std::uint8_t byte, std::vector<Place>& open);
  void advance_string(const Place& place, std::uint8_t byte, std::vector<Place>& open);
  void advance_dfa(const Place& place, std::uint8_t byte, std::vector<Place>& open);
  void advance_embedded(const Place& place, std::uint8_t byte, std::vector<Place>& open);
  void leave_key(const Place& place, std::uint32_t label, std::vector<Place>& open);
  bool leads_to_free(const Place& place) const;
  void advance_object(const Place& place, std::uint8_t byte, std::vector<Place>& open);
  void advance_key(const Place& place, std::uint8_t byte, std::vector<Place>& open);
  void advance_array(const Place& place, std::uint8_t byte, std::vector<Place>& open);

  const std::shared_ptr<const Program> program_;
  WorkBudget& budget_;
  Stacks stacks_;
  std::vector<Place> met_;                // by close(), in the order of their coming
  std::vector<std::uint32_t> met_table_;  // where these are many: 1 + an index of met_, by hash
  std::vector<StateData> states_;
  std::unordered_multimap<std::uint64_t, State> state_index_;
  std::size_t bytes_ = 0;
  State start_ = kDead;
};

}  // namespace reprise::protocol::grammar
