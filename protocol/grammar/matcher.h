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
#include <string_view>
#include <unordered_map>
#include <vector>

#include "protocol/grammar/json_char.h"
#include "protocol/grammar/program.h"

namespace reprise::protocol::grammar {

class Matcher {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0;

  explicit Matcher(std::shared_ptr<const Program> program);

  State start() const { return start_; }
  /// Throws GrammarError where a state would have too many places.
  State step(State state, std::uint8_t byte) {
    Transitions* known = states_[state].next.get();
    if (known != nullptr && (*known)[byte] != kUnknown) return (*known)[byte];
    return find_step(state, byte);
  }
  State step(State state, std::string_view bytes);
  /// By a special token: stands for a mark of the same text, or is part of free text.
  State step_special(State state, std::string_view text);

  /// The reply may end here.
  bool accepts(State state) const { return states_[state].accepts; }
  /// So many characters of a JSON string may follow as they are, whatever they are; capped at kManyChars.
  std::uint32_t free_chars(State state) const { return states_[state].free_chars; }
  /// And nothing else could follow but by bytes that are none of these characters.
  bool only_free(State state) const { return states_[state].places.size() == 1; }
  /// A special token may follow: there is a mark or free text.
  bool takes_special(State state) const { return states_[state].takes_special; }
  std::size_t bytes() const { return bytes_; }

  static constexpr std::uint32_t kManyChars = 24;

 private:
  static constexpr State kUnknown = UINT32_MAX;
  using Transitions = std::array<State, 256>;

  // A place in the program. What the numbers are depends on the node:
  //   kLiteral, kMark, kText   a: bytes of the text that have been read
  //   kDfa                     a: its state, b: CharProgress
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
    std::unique_ptr<Transitions> next{};
    bool accepts = false;
    bool takes_special = false;
    std::uint32_t free_chars = 0;
  };

  State find_step(State state, std::uint8_t byte);
  State intern(std::vector<Place> open);
  void close(std::vector<Place>& open, std::vector<Place>& places, bool& accepts);
  void enter(NodeId node, std::uint32_t stack, std::vector<Place>& open) const;
  void leave(std::uint32_t stack, std::vector<Place>& open, bool& accepts);
  void advance(const Place& place, std::uint8_t byte, std::vector<Place>& open);
  void advance_string(const Place& place, std::uint8_t byte, std::vector<Place>& open);
  void advance_dfa(const Place& place, std::uint8_t byte, std::vector<Place>& open);
  std::uint32_t free_chars_of(const Place& place) const;

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

  std::uint32_t frame(NodeId node, std::uint32_t value, std::uint32_t below);
  std::uint32_t intern_members(Members members);

  const std::shared_ptr<const Program> program_;
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
