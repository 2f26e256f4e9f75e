#pragma once
// Location: a position of the matcher in a program. Stacks: the interned stacks of enclosing rules and
// values.

#include <compare>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "protocol/grammar/program.h"
#include "protocol/grammar/work_budget.h"

namespace reprise::protocol::grammar {

/// Position within an object or array, between its values.
enum class Phase : std::uint8_t {
  kOpen,   // before the opening bracket
  kFirst,  // after the opening bracket
  kNext,   // after a comma
  kKey,    // within a key
  kColon,  // after a key; a: its label
  kValue,  // after the colon; a: the label
  kAfter,  // after a value
};

/// Packs a phase and the state of JsonSpace after the whitespace so far.
constexpr std::uint32_t in_phase(Phase phase, std::uint32_t space = 0) {
  return static_cast<std::uint32_t>(phase) | space << 8;
}
constexpr Phase phase_of(std::uint32_t packed) {
  return static_cast<Phase>(packed & 0xFF);
}
constexpr std::uint32_t space_of(std::uint32_t packed) {
  return packed >> 8;
}

/// Returns the packed phase at its beginning, before any whitespace.
inline std::uint32_t begun(Phase phase, const JsonSpace& space) {
  switch (phase) {
    case Phase::kFirst:
    case Phase::kAfter:
      return in_phase(phase, space.around_brackets);
    case Phase::kNext:
    case Phase::kValue:
      return in_phase(phase, space.after_separator);
    case Phase::kOpen:
    case Phase::kKey:
    case Phase::kColon:
      break;
  }
  return in_phase(phase);
}

/// A location in the program. The meaning of the members depends on the node:
///   kLiteral, kMark, kText   a: bytes of the text that have matched
///   kDfa                     a: automaton state, b: CharProgress
///   kEmbedded                like kDfa; phase: bytes of its mark that the text so far ends with, kept up to
///                            the next such node
///   kString                  phase: 0 before the quote; a: automaton state or character count, b:
///   CharProgress
///   kObject, kArray          phase: see Phase; within a key, a and b are like in a string
struct Location {
  NodeId node = 0;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t phase = 0;
  std::uint32_t stack = 0;

  auto operator<=>(const Location&) const = default;
};

/// Combines a hash with another value.
inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6) + (hash >> 2);
  return hash * 0xBF58476D1CE4E5B9ULL;
}

/// Interned stacks of locations, and interned sets of an object's members so far. Decides which members may
/// still be added.
class Stacks {
 public:
  struct Frame {
    NodeId node = 0;
    std::uint32_t value = 0;  // kRepeat, kArray: completed count; kObject: number of its Members
    std::uint32_t below = 0;

    bool operator==(const Frame&) const = default;
  };
  // The members of an unfinished object.
  struct Members {
    std::vector<std::uint64_t> seen{};  // bit set of declared properties
    std::uint32_t count = 0;            // all members, capped at the largest relevant count

    bool operator==(const Members&) const = default;
  };

  /// All work is charged to `budget`, which must outlive it.
  explicit Stacks(WorkBudget& budget);

  /// Returns the top frame of a stack; stack 0 is empty.
  const Frame& operator[](std::uint32_t stack) const { return frames_[stack]; }
  std::uint32_t push(NodeId node, std::uint32_t value, std::uint32_t below);
  /// Returns the members by the number in an object's frame; 0: none.
  const Members& members(std::uint32_t number) const { return members_[number]; }
  std::size_t bytes() const { return bytes_; }

  bool can_add(const ObjectSpec& spec, const Members& members, std::uint32_t property) const;
  bool can_add_other(const ObjectSpec& spec, const Members& members) const;
  bool can_add_any(const ObjectSpec& spec, const Members& members) const;
  /// Returns whether some key that can still be added is reachable from this state of ObjectSpec::keys.
  bool leads_to_key(const ObjectSpec& spec, const Members& members, std::uint32_t state) const;
  bool may_close(const ObjectSpec& spec, const Members& members) const;
  // Return the number of `members` with one more.
  std::uint32_t with_property(const ObjectSpec& spec, std::uint32_t members, std::uint32_t property);
  std::uint32_t with_other(const ObjectSpec& spec, std::uint32_t members);

 private:
  std::uint32_t missing(const ObjectSpec& spec, const Members& members, std::uint32_t property) const;
  std::uint32_t intern_members(Members members);
  void keep_bytes(std::size_t bytes) {
    bytes_ += bytes;
    budget_.take(bytes);
  }

  WorkBudget& budget_;
  std::vector<Frame> frames_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> frame_index_;
  std::vector<Members> members_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> member_index_;
  std::size_t bytes_ = 0;
};

}  // namespace reprise::protocol::grammar
