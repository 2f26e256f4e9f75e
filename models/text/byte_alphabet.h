#pragma once
// The alphabet in which byte-level vocabularies are written: one printable character for each of the 256
// bytes. The printable bytes of Latin-1 stand for themselves, the others are U+0100, U+0101, … in order; a
// space is U+0120 (Ġ), a newline U+010A (Ċ).
//
// Threading: pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::models {

char32_t letter_of_byte(std::uint8_t byte);

/// Nothing for a character outside the alphabet.
std::optional<std::uint8_t> byte_of_letter(char32_t letter);

/// The bytes written in letters.
std::string to_letters(std::string_view bytes);

/// The bytes that `letters` stand for; nothing if a character is outside the alphabet or malformed.
std::optional<std::string> from_letters(std::string_view letters);

/// The byte that a byte-fallback token such as "<0x0A>" stands for; nothing for any other text.
std::optional<std::uint8_t> byte_of_fallback_token(std::string_view text);

}  // namespace reprise::models
