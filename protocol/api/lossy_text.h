#pragma once
// Bytes that are perhaps no text, where JSON needs text: those of single tokens, and what clients sent.
//
// Threading: a pure function.

#include <string>
#include <string_view>

#include "base/json_text.h"
#include "base/utf8.h"

namespace reprise::protocol {

/// As JSON; what is not UTF-8 becomes U+FFFD.
inline void append_lossy_string(std::string& out, std::string_view bytes) {
  if (is_utf8(bytes)) return append_json_string(out, bytes);
  append_json_string(out, as_utf8(bytes));
}

}  // namespace reprise::protocol
