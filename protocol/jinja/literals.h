#pragma once
// Literals in the source of a template: numbers and strings, as Python writes them.
//
// Threading: pure functions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::protocol::jinja {

/// Bytes of the number at the start of `text`; 0 if there is none of that kind.
std::size_t integer_length(std::string_view text);  // 12, 1_000, 0x1f, 0o7, 0b1
std::size_t float_length(std::string_view text);    // 1.5, 2e10, 1.5e-3

/// Nothing past 64 bits.
std::optional<std::int64_t> integer_value(std::string_view literal);
double float_value(std::string_view literal);

/// Resolves the escapes of a string literal; false, with the reason, for one that stands for no character.
bool unescape(std::string_view literal, std::string& out, std::string& error);

}  // namespace reprise::protocol::jinja
