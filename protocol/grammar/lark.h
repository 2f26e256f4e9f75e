#pragma once
// Grammars in Lark's language, of which `start` is the text:
//
//   rules and terminals      name: … | …    NAME: …    [!?] before a rule, .PRIORITY behind a name, -> alias: change no text
//   items                    "text" "text"i  "a".."z"  /regex/ with the flags i, s, u  names  ( ) [ ]
//   repetitions              ? * +  ~n  ~n..m
//   %import common.NAME      with -> NAME, or (NAME, …): the terminals of Lark's common.lark
//   %ignore ITEMS            between any two terminals, before the first and behind the last
//   comments                 // and #
//
// A text fits where the rules derive it character by character, as Lark's Earley parser with its lexer "dynamic_complete"
// has it: how another lexer would cut the text says nothing. So a terminal may be empty, and priorities decide nothing. A
// rule that begins with itself is rewritten; one that does so by way of another is refused. Regular expressions have no
// look around, and no '^' or '$'. Templates, %declare, %override, %extend and other imports are refused by name.
//
// Threading: pure functions.

#include <string_view>

#include "protocol/grammar/rules.h"

namespace reprise::protocol::grammar {

/// The text, ending at `builder.end()`. Throws GrammarError with the line.
NodeId lark_start(ProgramBuilder& builder, std::string_view text, const TextForm& form);

}  // namespace reprise::protocol::grammar
