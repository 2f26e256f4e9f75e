#pragma once
// Base64 with standard alphabet and padding (RFC 4648, section 4).

#include <optional>
#include <string>
#include <string_view>

namespace reprise {

std::string to_base64(std::string_view bytes);

/// Returns nullopt if `text` is not canonical base64: other characters, missing padding, nonzero unused bits.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace reprise
