#pragma once
// Program: a compiled grammar, as a machine reads it (matcher.h). It knows no vocabulary.
//
// Nodes consume bytes and lead on; a value (of a JSON schema), a rule (of a grammar) is a node to begin with, and
// ends at kReturn. What is within what is a stack of frames: calls, repetitions, objects, arrays. Objects take their
// members in any order, each declared one once.
//
// Whitespace in JSON is read by a small automaton (JsonSpace). By default a blank may follow a comma or a colon, and
// nothing else may come: a reply cannot go on for ever with blanks.
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
  kReturn,    // the rule or value has ended
  kFail,      // nothing fits
  kSplit,     // arg: a list of nodes, one of which
  kLiteral,   // arg: a text
  kMark,      // arg: a text; a special token of the same bytes may stand for it
  kDfa,       // arg: an automaton over characters, in UTF-8
  kString,    // arg: a JsonStringSpec, with its quotes
  kCall,      // arg: a node: a rule
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
  std::uint32_t dfa = kNowhere;  // over its characters, not as they are escaped; kNowhere: all are fine, and
  std::uint32_t least = 0;       // so many
  std::uint32_t most = kUnbounded;
};

struct RepeatSpec {
  NodeId body = 0;
  std::uint32_t least = 0;
  std::uint32_t most = kUnbounded;
};

struct ObjectSpec {
  struct Property {
    NodeId value = kNowhere;  // kNowhere: must not be there
    bool required = false;
  };
  /// Labels of its keys: 1 + the number of a property, or behind those 1 + the number of one of `others`.
  std::uint32_t keys = kNowhere;  // automaton
  std::vector<Property> properties{};
  std::vector<NodeId> others{};  // values of keys that are no property's
  /// Of each state of `keys`: the properties that can still be meant, and whether another key can.
  struct Reach {
    std::uint32_t low = 0;
    std::uint32_t high = 0;  // behind the last
    bool others = false;
  };
  std::vector<Reach> reach{};
  std::uint32_t least = 0;  // members
  std::uint32_t most = kUnbounded;
  /// Who is there needs others to be there.
  struct Need {
    std::uint32_t property = 0;
    std::vector<std::uint32_t> needs{};
  };
  std::vector<Need> needs{};
};

struct ArraySpec {
  std::vector<NodeId> first{};  // of the first items
  NodeId rest = kNowhere;       // kNowhere: there are no further ones
  std::uint32_t least = 0;
  std::uint32_t most = kUnbounded;

  NodeId item(std::uint32_t index) const {
    if (index >= most) return kNowhere;
    return index < first.size() ? first[index] : rest;
  }
};

/// Any text up to the first `mark`, and that.
struct TextSpec {
  std::string mark{};
  bool may_end = false;                  // the whole reply, without a mark
  std::vector<std::uint32_t> borders{};  // [bytes of the mark + 1]: of Knuth, Morris and Pratt
};

/// An automaton over the characters of a text that is part of another format.
struct EmbeddedSpec {
  std::uint32_t dfa = kNowhere;
  /// Of Program::free_texts: the text is as it is, and has no such mark in it, whatever automata follow each other.
  /// kNowhere: it is escaped as in a JSON string.
  std::uint32_t mark = kNowhere;
};

/// A state of JsonSpace: the whitespace since the last token.
struct SpaceState {
  std::array<std::uint32_t, 4> next{kNowhere, kNowhere, kNowhere, kNowhere};  // by a blank, tab, \n, \r
  bool may_end = true;                                                        // a token may follow
};

/// Whitespace between the tokens of JSON values.
struct JsonSpace {
  std::vector<SpaceState> states{{}, {.next = {0, kNowhere, kNowhere, kNowhere}}};
  std::uint32_t after_separator = 1;  // after a comma or colon: none, or one blank
  std::uint32_t around_brackets = 0;  // after an opening bracket, before a comma or closing bracket: none

  /// The state after one more byte; kNowhere: it is no whitespace, or more than may come.
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

  /// That it holds, about.
  std::size_t bytes() const;
};

/// Builds nodes, and bounds them.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(WorkBudget& budget) : budget_(budget) {
    program_.limits = budget.limits();
    end_ = add(Op::kReturn, 0, 0);
  }

  WorkBudget& budget() { return budget_; }
  Program& program() { return program_; }
  /// The kReturn that all share.
  NodeId end() const { return end_; }

  NodeId add(Op op, NodeId next, std::uint32_t arg);
  NodeId literal(std::string text, NodeId next);
  NodeId mark(std::string text, NodeId next);
  NodeId split(std::vector<NodeId> choices);
  NodeId call(NodeId rule, NodeId next) { return add(Op::kCall, next, rule); }
  NodeId dfa(CharDfa dfa, NodeId next);  // kFail for one that accepts nothing
  NodeId pattern(std::string_view regex, NodeId next);
  NodeId chars(const CharSet& set, NodeId next);
  NodeId embedded(CharDfa dfa, std::uint32_t mark, NodeId next);  // as dfa()
  NodeId string(JsonStringSpec spec, NodeId next);
  NodeId repeat(RepeatSpec spec, NodeId next);
  NodeId object(ObjectSpec spec, NodeId next);
  NodeId array(ArraySpec spec, NodeId next);
  NodeId text_until(std::string mark, bool may_end, NodeId next);
  std::uint32_t add_dfa(CharDfa dfa);
  std::uint32_t add_mark(std::string mark, bool may_end);  // a TextSpec
  CharDfa automaton_of(const CharSet& set);                // accepts one of the characters

  /// The program that begins there, without what could never come to an end. Throws where nothing is left.
  Program finish(NodeId start);

 private:
  void spread_required();
  bool prune();

  WorkBudget& budget_;
  Program program_;
  NodeId end_ = 0;
};

}  // namespace reprise::protocol::grammar
