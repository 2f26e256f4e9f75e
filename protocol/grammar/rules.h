#pragma once
// Rules: a parsed context-free grammar and its compilation to nodes, with the parsers of GBNF and Lark.
//
// A text matches if the start rule derives it character by character; there is no separate lexer.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/grammar/program.h"

namespace reprise::protocol::grammar {

/// One item of an alternative.
struct RuleItem {
  enum class Kind : std::uint8_t {
    kLiteral,  // matches `text`
    kChars,    // one character of `chars`
    kPattern,  // number: index into Rules::patterns
    kRule,     // text: name of a rule
    kGroup,    // matches `group`
  };
  Kind kind = Kind::kLiteral;
  std::string text{};
  CharSet chars{};
  std::uint32_t number = 0;
  std::vector<std::vector<RuleItem>> group{};  // alternatives, each a sequence
  std::uint32_t min = 1;                       // minimum repetitions
  std::uint32_t max = 1;
  std::uint32_t line = 0;  // in the grammar's text; 0: unknown
};
using RuleChoice = std::vector<std::vector<RuleItem>>;

struct Rule {
  RuleChoice choice{};
  std::uint32_t line = 0;  // see RuleItem::line
};

struct Rules {
  std::map<std::string, Rule> by_name{};
  std::vector<CharDfa> patterns{};  // each is used by one item
};

/// How the text of a grammar is written in the reply.
struct TextForm {
  enum class Kind : std::uint8_t {
    kPlain,       // unchanged
    kJsonString,  // JSON-escaped, without quotes
    kUntilMark,   // unchanged, must not contain `mark`
  } kind = Kind::kPlain;
  std::string mark{};  // must not overlap itself
};

/// Returns "line 3 of the grammar: "; empty if the line is unknown.
std::string at_line(std::uint32_t line);

/// Returns the node of the start rule, which ends at `builder.end()`. Throws GrammarError, with the line if
/// known, for undefined rules and for left recursion, which would not terminate.
NodeId rules_start(ProgramBuilder& builder, Rules rules, std::string_view start, const TextForm& form);

/// Returns a node for text that matches the regular expression (Python dialect, regex.h), continuing at
/// `next`.
NodeId pattern_text(ProgramBuilder& builder, std::string_view regex, const TextForm& form, NodeId next);

/// Compiles a GBNF grammar (llama.cpp's format): rules `name ::= ...`, start rule `root`; literals, character
/// classes, groups, alternatives, *, +, ?, {m,n}, '.', comments. Throws GrammarError with the line; left
/// recursion is an error.
NodeId gbnf_root(ProgramBuilder& builder, std::string_view text);

/// Compiles a Lark grammar with start rule `start`:
///
///   rules and terminals      name: ... | ...    NAME: ...
///                            [!?] before a rule, .PRIORITY after a name, -> alias: no effect
///   items                    "text" "text"i  "a".."z"  /regex/ with flags i, s, u  names  ( ) [ ]
///   repetitions              ? * +  ~n  ~n..m
///   %import common.NAME      with -> NAME, or (NAME, ...): the terminals of Lark's common.lark
///   %ignore ITEMS            between any two terminals, before the first and after the last
///   comments                 /// and #
///
/// A text matches if the rules derive it character by character, as with Lark's Earley parser and
/// "dynamic_complete" lexer. Hence terminals may be empty and priorities have no effect. Direct left
/// recursion is rewritten; indirect left recursion is an error. Regular expressions have no lookaround, '^'
/// or '$'. Templates, %declare, %override, %extend and other imports are errors.
///
/// Returns the node of the text, which ends at `builder.end()`. Throws GrammarError with the line.
NodeId lark_start(ProgramBuilder& builder, std::string_view text, const TextForm& form);

}  // namespace reprise::protocol::grammar
