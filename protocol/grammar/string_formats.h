#pragma once
// The values of JSON Schema's `format` for strings, as regular expressions.
//
// Threading: pure functions.

#include <string_view>

namespace reprise::protocol::grammar {

/// A regular expression of the whole text; null: no such format is known here.
const char* pattern_of_format(std::string_view format);

/// The specification defines it, so that ignoring it would be wrong. Others are annotations to it.
bool is_defined_format(std::string_view format);

}  // namespace reprise::protocol::grammar
