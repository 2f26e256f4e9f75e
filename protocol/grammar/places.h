#pragma once
// Where a matcher is in a program: places, with the stacks of what they are within.
//
// Threading: places are plain values; Stacks has one owner.

#include <compare>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "protocol/grammar/program.h"
#include "protocol/grammar/work_budget.h"

namespace reprise::protocol::grammar {

/// Position within an object or array, between their values.
enum class Phase : std::uint8_t {
  kOpen,   // the opening bracket comes
  kFirst,  // behind it
  kNext,   // behind a comma
  kKey,    // within a key
  kColon,  // behind a key; a: its label
  kValue,  // behind the colon; a: the label
  kAfter,  // behind a value
};

/// As a number, with the state of JsonSpace that the whitespace so far has led to.
constexpr std::uint32_t in_phase(Phase phase, std::uint32_t space = 0) {
  return static_cast<std::uint32_t>(phase) | space << 8;
}
constexpr Phase phase_of(std::uint32_t packed) {
  return static_cast<Phase>(packed & 0xFF);
}
constexpr std::uint32_t space_of(std::uint32_t packed) {
  return packed >> 8;
}

/// A phase that begins, without whitespace.
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

/// A place in the program. What the numbers are depends on the node:
///   kLiteral, kMark, kText   a: bytes of the text that have been read
///   kDfa                     a: its state, b: CharProgress
///   kEmbedded                the same; phase: bytes of its mark that the text so far ends with, which is kept on the way
///                            to the next such node
///   kString                  phase: 0 before the quote; a: its state, or the characters so far; b: CharProgress
///   kObject, kArray          as Phase says; within a key as in a string
struct Place {
  NodeId node = 0;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t phase = 0;
  std::uint32_t stack = 0;

  auto operator<=>(const Place&) const = default;
};

/// A hash with one more number in it.
inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6) + (hash >> 2);
  return hash * 0xBF58476D1CE4E5B9ULL;
}

/// The stacks that places have, and the members so far of objects on them: each is kept once and has a number. Says what
/// may still be a member of an object.
class Stacks {
 public:
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

  /// `budget` is charged for all of its work, and must outlive it.
  explicit Stacks(WorkBudget& budget);

  /// The top of a stack; 0 is the bottom of all.
  const Frame& operator[](std::uint32_t stack) const { return frames_[stack]; }
  std::uint32_t push(NodeId node, std::uint32_t value, std::uint32_t below);
  /// By the number in the frame of an object; 0: none.
  const Members& members(std::uint32_t number) const { return members_[number]; }
  std::size_t bytes() const { return bytes_; }

  bool can_add(const ObjectSpec& spec, const Members& members, std::uint32_t property) const;
  bool can_add_other(const ObjectSpec& spec, const Members& members) const;
  bool can_add_any(const ObjectSpec& spec, const Members& members) const;
  /// By a key that goes on from this state of ObjectSpec::keys.
  bool leads_to_key(const ObjectSpec& spec, const Members& members, std::uint32_t state) const;
  bool may_close(const ObjectSpec& spec, const Members& members) const;
  // The number of `members` with one more.
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
