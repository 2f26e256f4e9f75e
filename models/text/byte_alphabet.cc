#include "models/text/byte_alphabet.h"

#include <array>

#include "base/utf8.h"

namespace reprise::models {
namespace {

constexpr char32_t kFirstStandIn = 0x100;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> kLetters = [] {
  std::array<char32_t, 256> letters{};
  char32_t next = kFirstStandIn;
  for (unsigned byte = 0; byte < 256; ++byte) letters[byte] = stands_for_itself(byte) ? byte : next++;
  return letters;
}();

constexpr std::size_t kLetterLimit = 0x144;

// Byte by letter, or -1.
constexpr std::array<std::int16_t, kLetterLimit> kBytes = [] {
  std::array<std::int16_t, kLetterLimit> bytes{};
  for (auto& byte : bytes) byte = -1;
  for (unsigned byte = 0; byte < 256; ++byte) bytes[kLetters[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}();

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

char32_t letter_of_byte(std::uint8_t byte) {
  return kLetters[byte];
}

std::optional<std::uint8_t> byte_of_letter(char32_t letter) {
  if (letter >= kLetterLimit || kBytes[letter] < 0) return std::nullopt;
  return static_cast<std::uint8_t>(kBytes[letter]);
}

std::string to_letters(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(out, letter_of_byte(static_cast<std::uint8_t>(byte)));
  return out;
}

std::optional<std::string> from_letters(std::string_view letters) {
  std::string out;
  out.reserve(letters.size());
  for (std::size_t at = 0; at < letters.size();) {
    const Utf8Char read = read_utf8(letters, at);
    const auto byte = read.is_valid ? byte_of_letter(read.code_point) : std::nullopt;
    if (!byte) return std::nullopt;
    out.push_back(static_cast<char>(*byte));
    at += read.length;
  }
  return out;
}

std::optional<std::uint8_t> byte_of_fallback_token(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return std::nullopt;
  const int high = hex_digit(text[3]);
  const int low = hex_digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<std::uint8_t>(high * 16 + low);
}

}  // namespace reprise::models
