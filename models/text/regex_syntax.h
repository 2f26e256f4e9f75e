#pragma once
// Regular expressions of tokenizer.json are written for Oniguruma. to_pcre2() says the same in PCRE2's syntax
// where the two differ:
//
//   \s \S           the White_Space property; PCRE2's own \s has one character more
//   \w \W \b \B     Oniguruma's notion of a word
//   \h \v           a hexadecimal digit, a vertical tab
//   \uHHHH {,n}     forms that PCRE2 does not know
//   x{n,m}+         a repeated interval, not a possessive one
//   [a[^b]&&[c]]    nested classes and intersections, rewritten with lookaheads
//   \p{Letter}      long names of categories; names of scripts mean the script alone, not its extensions
//   (?m:…)          a dot that matches newlines
//
// Threading: a pure function.

#include <string>
#include <string_view>

namespace reprise::models {

/// RegexError for what cannot be translated. The result may still be refused by the Regex constructor.
std::string to_pcre2(std::string_view pattern);

/// `text` as a pattern that matches just this text.
std::string quote_regex(std::string_view text);

}  // namespace reprise::models
