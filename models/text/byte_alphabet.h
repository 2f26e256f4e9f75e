#pragma once
// The alphabet of byte-level vocabularies: one printable character for each of the 256 bytes. Printable bytes
// of Latin-1 map to themselves, the others to U+0100, U+0101, … in order; a space is U+0120 (Ġ), a newline
// U+010A (Ċ).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::models {

char32_t letter_of_byte(std::uint8_t byte);

/// Returns nullopt for a character outside the alphabet.
std::optional<std::uint8_t> byte_of_letter(char32_t letter);

/// Writes bytes in the alphabet.
std::string to_letters(std::string_view bytes);

/// Inverse of to_letters(); nullopt if a character is malformed or outside the alphabet.
std::optional<std::string> from_letters(std::string_view letters);

/// The byte of a byte-fallback token such as "<0x0A>"; nullopt for any other text.
std::optional<std::uint8_t> byte_of_fallback_token(std::string_view text);

}  // namespace reprise::models
