#pragma once
// Bytes that are perhaps no text, where JSON needs text: those of single tokens, and what clients sent.
//
// Threading: pure functions.

#include <string>
#include <string_view>

namespace reprise::protocol {

bool is_utf8(std::string_view bytes);
/// With U+FFFD for each byte that belongs to no character.
std::string as_utf8(std::string_view bytes);
/// As JSON; what is not UTF-8 becomes U+FFFD.
void append_lossy_string(std::string& out, std::string_view bytes);

}  // namespace reprise::protocol
