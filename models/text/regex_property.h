#pragma once
// Names of Unicode properties in regular expressions.
//
// Threading: a pure function.

#include <string>
#include <string_view>

namespace reprise::models {

/// What stands between the braces of Oniguruma's \p{…}, in PCRE2's words: long names of categories become
/// short, names of scripts mean the script alone. A name that is not known here comes back as it is.
std::string pcre2_property(std::string_view name);

}  // namespace reprise::models
