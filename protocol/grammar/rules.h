#pragma once
// Rules: a context-free grammar as a reader leaves it, and the nodes that it becomes; and the readers, of GBNF and Lark.
//
// A text fits where the start rule derives it, character by character: there is no lexer that would cut it first.
//
// Threading: plain values and pure functions.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/grammar/program.h"

namespace reprise::protocol::grammar {

/// One piece of an alternative.
struct RuleItem {
  enum class Kind : std::uint8_t {
    kLiteral,  // text
    kChars,    // one of chars
    kPattern,  // number: an automaton of Rules::patterns
    kRule,     // text: the name of a rule
    kGroup,    // group
  };
  Kind kind = Kind::kLiteral;
  std::string text{};
  CharSet chars{};
  std::uint32_t number = 0;
  std::vector<std::vector<RuleItem>> group{};  // alternatives, each a sequence
  std::uint32_t least = 1;                     // repetitions
  std::uint32_t most = 1;
  std::uint32_t line = 0;  // of the grammar's text; 0: not known
};
using RuleChoice = std::vector<std::vector<RuleItem>>;

struct Rule {
  RuleChoice choice{};
  std::uint32_t line = 0;  // as RuleItem::line
};

struct Rules {
  std::map<std::string, Rule> by_name{};
  std::vector<CharDfa> patterns{};  // each is used by one item
};

/// How the text of a grammar stands in the reply.
struct TextForm {
  enum class Kind : std::uint8_t {
    kPlain,       // as it is
    kJsonString,  // escaped as in a JSON string, without the quotes
    kUntilMark,   // as it is, and never with `mark` in it
  } kind = Kind::kPlain;
  std::string mark{};  // without two occurrences that overlap
};

/// "line 3 of the grammar: "; empty where the line is not known.
std::string at_line(std::uint32_t line);

/// The start rule, ending at `builder.end()`. Throws GrammarError, with the line where it is known, for a name without a
/// rule and for a rule that begins with itself: it could go on for ever before the first character.
NodeId rules_start(ProgramBuilder& builder, Rules rules, std::string_view start, const TextForm& form);

/// All of the text matches the regular expression, which is of Python's dialect (regex.h), up to `next`.
NodeId pattern_text(ProgramBuilder& builder, std::string_view regex, const TextForm& form, NodeId next);

/// Grammars in GBNF, as llama.cpp writes them: rules `name ::= …`, of which `root` is the reply. Literals, classes of
/// characters, groups, alternatives, *, +, ?, {m,n}, '.', comments.
///
/// A rule that begins with itself is refused: it could go on for ever before the first byte.
///
/// Throws GrammarError with the line.
NodeId gbnf_root(ProgramBuilder& builder, std::string_view text);

/// Grammars in Lark's language, of which `start` is the text:
///
///   rules and terminals      name: … | …    NAME: …    [!?] before a rule, .PRIORITY behind a name, -> alias: change no text
///   items                    "text" "text"i  "a".."z"  /regex/ with the flags i, s, u  names  ( ) [ ]
///   repetitions              ? * +  ~n  ~n..m
///   %import common.NAME      with -> NAME, or (NAME, …): the terminals of Lark's common.lark
///   %ignore ITEMS            between any two terminals, before the first and behind the last
///   comments                 /// and #
///
/// A text fits where the rules derive it character by character, as Lark's Earley parser with its lexer "dynamic_complete"
/// has it: how another lexer would cut the text says nothing. So a terminal may be empty, and priorities decide nothing. A
/// rule that begins with itself is rewritten; one that does so by way of another is refused. Regular expressions have no
/// look around, and no '^' or '$'. Templates, %declare, %override, %extend and other imports are refused by name.
///
/// The text, ending at `builder.end()`. Throws GrammarError with the line.
NodeId lark_start(ProgramBuilder& builder, std::string_view text, const TextForm& form);

}  // namespace reprise::protocol::grammar
