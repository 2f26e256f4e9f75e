#pragma once
// Grammars in GBNF, as llama.cpp writes them: rules `name ::= …`, of which `root` is the reply. Literals, classes of
// characters, groups, alternatives, *, +, ?, {m,n}, '.', comments.
//
// A rule that begins with itself is refused: it could go on for ever before the first byte.
//
// Threading: pure functions.

#include <string_view>

#include "protocol/grammar/program.h"

namespace reprise::protocol::grammar {

/// Throws GrammarError with the line.
NodeId gbnf_root(ProgramBuilder& builder, std::string_view text);

}  // namespace reprise::protocol::grammar
