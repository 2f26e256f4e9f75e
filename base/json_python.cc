#include "base/json_python.h"

#include <limits>

namespace reprise {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Behind the closing quote of the string that opens at `at`, or the end of the text.
std::size_t behind_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return text.size();
}

}  // namespace

PythonJson rewrite_python_json(std::string_view text) {
  PythonJson out;
  out.text.reserve(text.size());
  std::size_t strings = 0;
  const auto word_at = [&](std::string_view word, double value, std::size_t& at) {
    if (!text.substr(at).starts_with(word)) return false;
    out.words.push_back({strings++, value});
    out.text += "\"\"";
    at += word.size();
    return true;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      const std::size_t end = behind_string(text, at);
      out.text += text.substr(at, end - at);
      at = end;
      ++strings;
    } else if (c == '-' || is_digit(c)) {
      if (word_at("-Infinity", -kInfinity, at)) continue;
      std::size_t end = at + 1;
      while (end < text.size() && is_digit(text[end])) ++end;
      const bool whole = end == text.size() || (text[end] != '.' && text[end] != 'e' && text[end] != 'E');
      out.text += text.substr(at, end - at);
      if (whole && end - at > 19) out.text += "e0";  // may not fit 64 bits: read as a double
      at = end;
      if (!whole) {  // the exponent's digits are not an integer of their own
        while (at < text.size() &&
               (is_digit(text[at]) || std::string_view("+-.eE").find(text[at]) != text.npos)) {
          out.text += text[at++];
        }
      }
    } else if (!word_at("Infinity", kInfinity, at) &&
               !word_at("NaN", std::numeric_limits<double>::quiet_NaN(), at)) {
      out.text += c;
      ++at;
    }
  }
  return out;
}

}  // namespace reprise
