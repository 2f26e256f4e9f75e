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

#include "protocol/grammar/content_rule.h"
#include "protocol/grammar/endings.h"
#include "protocol/grammar/json_char.h"
#include "protocol/grammar/program.h"
#include "protocol/grammar/work_budget.h"

namespace reprise::protocol::grammar {

class Matcher {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0;

  // A place in the program. What the numbers are depends on the node:
  //   kLiteral, kMark, kText   a: bytes of the text that have been read
  //   kDfa                     a: its state, b: CharProgress
  //   kEmbedded                the same; phase: bytes of its mark that the text so far ends with, which is kept on the way
  //                            to the next such node
  //   kString                  phase: 0 before the quote; a: its state, or the characters so far; b: CharProgress
  //   kObject, kArray          as json_phase.h says; within a key as in a string
  struct Place {
    NodeId node = 0;
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    std::uint32_t phase = 0;
    std::uint32_t stack = 0;

    auto operator<=>(const Place&) const = default;
  };

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
  std::size_t bytes() const { return bytes_; }

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

  struct Frame {
    NodeId node = 0;
    std::uint32_t value = 0;  // kRepeat, kArray: done so far; kObject: its members so far
    std::uint32_t below = 0;

    bool operator==(const Frame&) const = default;
  };
  // Of an object that is being written.
  struct Members {
    std::vector<std::uint64_t> seen{};  // bits: properties
    std::uint32_t count = 0;            // of all members, as far as that matters

    bool operator==(const Members&) const = default;
  };
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

  // -- matcher_json.cc
  void advance_object(const Place& place, std::uint8_t byte, std::vector<Place>& open);
  void advance_key(const Place& place, std::uint8_t byte, std::vector<Place>& open);
  void advance_array(const Place& place, std::uint8_t byte, std::vector<Place>& open);
  bool can_add(const ObjectSpec& spec, const Members& members, std::uint32_t property) const;
  bool can_add_other(const ObjectSpec& spec, const Members& members) const;
  bool can_add_any(const ObjectSpec& spec, const Members& members) const;
  bool leads_to_key(const ObjectSpec& spec, const Members& members, std::uint32_t state) const;
  bool may_close(const ObjectSpec& spec, const Members& members) const;
  std::uint32_t missing(const ObjectSpec& spec, const Members& members, std::uint32_t property) const;
  std::uint32_t with_property(const ObjectSpec& spec, std::uint32_t members, std::uint32_t property);
  std::uint32_t with_other(const ObjectSpec& spec, std::uint32_t members);

  // -- matcher_ending.cc
  bool write_place(const Place& place, const Endings& endings, Ending& out) const;
  bool write_object(const Place& place, const Endings& endings, Ending& out) const;
  bool write_key(const Place& place, const Endings& endings, Ending& out) const;
  bool write_array(const Place& place, const Endings& endings, Ending& out) const;
  bool write_frames(std::uint32_t stack, const Endings& endings, Ending& out) const;
  bool write_rest(std::uint32_t object, std::uint32_t members, const Endings& endings, Ending& out) const;
  bool members_after_comma(std::uint32_t object, const Members& members, const Endings& endings,
                           std::vector<std::uint32_t>& labels) const;

  std::uint32_t frame(NodeId node, std::uint32_t value, std::uint32_t below);
  std::uint32_t intern_members(Members members);

  const std::shared_ptr<const Program> program_;
  WorkBudget& budget_;
  std::vector<Place> met_;                // by close(), in the order of their coming
  std::vector<std::uint32_t> met_table_;  // where these are many: 1 + an index of met_, by hash
  std::vector<StateData> states_;
  std::unordered_multimap<std::uint64_t, State> state_index_;
  std::vector<Frame> frames_;  // 0: the bottom
  std::unordered_multimap<std::uint64_t, std::uint32_t> frame_index_;
  std::vector<Members> members_;  // 0: none
  std::unordered_multimap<std::uint64_t, std::uint32_t> member_index_;
  std::size_t bytes_ = 0;
  State start_ = kDead;
};

}  // namespace reprise::protocol::grammar
