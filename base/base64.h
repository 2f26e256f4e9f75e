#pragma once
// Base64 with the usual alphabet and padding (RFC 4648, section 4).
//
// Threading: pure functions.

#include <optional>
#include <string>
#include <string_view>

namespace reprise {

std::string to_base64(std::string_view bytes);

/// Nothing where the text is not base64: other characters, a missing end, bits that would be lost.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace reprise
