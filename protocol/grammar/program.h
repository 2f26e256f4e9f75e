#pragma once
// Program: a compiled grammar in the form that the matcher (matcher.h) executes. It is independent of the
// vocabulary.
//
// A node consumes bytes and continues at its next node. Each JSON schema value and each grammar rule is a
// start node, and ends at kReturn. Nesting is a stack of frames: calls, repetitions, objects, arrays. Objects
// accept their members in any order, declared ones once.
//
// Whitespace in JSON is described by a small automaton (JsonSpace). By default it is one optional space after
// commas and colons, so a reply cannot continue forever with whitespace.
//
// Threading: built by one thread, then immutable and shared.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/grammar/char_dfa.h"

namespace reprise::protocol::grammar {

using NodeId = std::uint32_t;
inline constexpr NodeId kNowhere = UINT32_MAX;
inline constexpr std::uint32_t kUnbounded = UINT32_MAX;

enum class Op : std::uint8_t {
  kReturn,    // end of the rule or value
  kFail,      // matches nothing
  kSplit,     // arg: a list of alternative nodes
  kLiteral,   // arg: a text
  kMark,      // arg: a text; also matched by a special token with the same bytes
  kDfa,       // arg: an automaton over UTF-8 characters
  kString,    // arg: a JsonStringSpec, including its quotes
  kCall,      // arg: start node of a rule
  kRepeat,    // arg: a RepeatSpec
  kObject,    // arg: an ObjectSpec
  kArray,     // arg: an ArraySpec
  kText,      // arg: a TextSpec
  kEmbedded,  // arg: an EmbeddedSpec
};

struct Node {
  Op op = Op::kFail;
  NodeId next = 0;
  std::uint32_t arg = 0;
};

struct JsonStringSpec {
  // over the unescaped characters; kNowhere: any characters, limited by the counts
  std::uint32_t dfa = kNowhere;
  std::uint32_t min = 0;  // minimum characters
  std::uint32_t max = kUnbounded;
};

struct RepeatSpec {
  NodeId body = 0;
  std::uint32_t min = 0;
  std::uint32_t max = kUnbounded;
};

struct ObjectSpec {
  struct Property {
    NodeId value = kNowhere;  // kNowhere: must be absent
    bool required = false;
  };
  /// Labels of the automaton `keys`: 1 + index into properties, then 1 + properties.size() + index into
  /// others.
  std::uint32_t keys = kNowhere;
  std::vector<Property> properties{};
  std::vector<NodeId> others{};  // values of undeclared keys
  /// By state of `keys`: the range of properties that are reachable, and whether an undeclared key is.
  struct Reach {
    std::uint32_t low = 0;
    std::uint32_t high = 0;  // exclusive
    bool others = false;
  };
  std::vector<Reach> reach{};
  std::uint32_t min = 0;  // minimum members
  std::uint32_t max = kUnbounded;
  /// If `property` is present, `needs` must be too.
  struct Need {
    std::uint32_t property = 0;
    std::vector<std::uint32_t> needs{};
  };
  std::vector<Need> needs{};
};

struct ArraySpec {
  std::vector<NodeId> first{};  // nodes of the first items
  NodeId rest = kNowhere;       // node of the further items; kNowhere: none
  std::uint32_t min = 0;
  std::uint32_t max = kUnbounded;

  NodeId item(std::uint32_t index) const {
    if (index >= max) return kNowhere;
    return index < first.size() ? first[index] : rest;
  }
};

/// Any text up to and including the first `mark`.
struct TextSpec {
  std::string mark{};
  bool may_end = false;  // the text may also be the rest of the reply, without a mark
  // Knuth-Morris-Pratt failure table of the mark, one entry per byte plus one
  std::vector<std::uint32_t> borders{};
};

/// An automaton over the characters of a text within another format.
struct EmbeddedSpec {
  std::uint32_t dfa = kNowhere;
  /// Index into Program::free_texts: the text is not escaped and must not contain that mark, even across
  /// consecutive automata. kNowhere: escaped as in a JSON string.
  std::uint32_t mark = kNowhere;
};

/// A state of JsonSpace: whitespace since the last token.
struct SpaceState {
  // next state for space, tab, \n, \r
  std::array<std::uint32_t, 4> next{kNowhere, kNowhere, kNowhere, kNowhere};
  bool may_end = true;  // a token may follow
};

/// Automaton of the whitespace between JSON tokens.
struct JsonSpace {
  std::vector<SpaceState> states{{}, {.next = {0, kNowhere, kNowhere, kNowhere}}};
  std::uint32_t after_separator = 1;  // start state after a comma or colon; default: one optional space
  // start state after an opening bracket and before a comma or closing bracket; default: none
  std::uint32_t around_brackets = 0;

  /// Returns the next state; kNowhere: the byte is not allowed whitespace.
  std::uint32_t step(std::uint32_t state, std::uint8_t byte) const {
    switch (byte) {
      case ' ':
        return states[state].next[0];
      case '\t':
        return states[state].next[1];
      case '\n':
        return states[state].next[2];
      case '\r':
        return states[state].next[3];
      default:
        return kNowhere;
    }
  }
};

struct Program {
  std::vector<Node> nodes{};
  NodeId start = 0;
  std::vector<std::vector<NodeId>> lists{};
  std::vector<std::string> texts{};
  std::vector<CharDfa> dfas{};
  std::vector<JsonStringSpec> strings{};
  std::vector<RepeatSpec> repeats{};
  std::vector<ObjectSpec> objects{};
  std::vector<ArraySpec> arrays{};
  std::vector<TextSpec> free_texts{};
  std::vector<EmbeddedSpec> embedded{};
  JsonSpace space{};
  Limits limits{};

  /// Returns the approximate memory used.
  std::size_t bytes() const;
};

/// Builds a program within a budget.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(WorkBudget& budget) : budget_(budget) {
    program_.limits = budget.limits();
    end_ = add(Op::kReturn, 0, 0);
  }

  WorkBudget& budget() { return budget_; }
  Program& program() { return program_; }
  NodeId end() const { return end_; }

  NodeId add(Op op, NodeId next, std::uint32_t arg);
  NodeId literal(std::string text, NodeId next);
  NodeId mark(std::string text, NodeId next);
  NodeId split(std::vector<NodeId> choices);
  NodeId call(NodeId rule, NodeId next) { return add(Op::kCall, next, rule); }
  NodeId dfa(CharDfa dfa, NodeId next);  // kFail if the automaton is empty
  NodeId pattern(std::string_view regex, NodeId next);
  NodeId chars(const CharSet& set, NodeId next);
  NodeId embedded(CharDfa dfa, std::uint32_t mark, NodeId next);  // kFail if the automaton is empty
  NodeId string(JsonStringSpec spec, NodeId next);
  NodeId repeat(RepeatSpec spec, NodeId next);
  NodeId object(ObjectSpec spec, NodeId next);
  NodeId array(ArraySpec spec, NodeId next);
  NodeId text_until(std::string mark, bool may_end, NodeId next);
  std::uint32_t add_dfa(CharDfa dfa);
  std::uint32_t add_mark(std::string mark, bool may_end);  // adds a TextSpec
  CharDfa automaton_of(const CharSet& set);

  /// Returns the program that starts at `start`, without nodes that cannot reach the end. Throws if nothing
  /// remains.
  Program finish(NodeId start);

 private:
  void spread_required();
  bool prune();

  WorkBudget& budget_;
  Program program_;
  NodeId end_ = 0;
};

}  // namespace reprise::protocol::grammar
