#include "protocol/jinja/numbers.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "protocol/jinja/error.h"
#include "protocol/jinja/methods.h"

namespace reprise::protocol::jinja {
namespace {

// Without the underscores between digits; nothing if one stands elsewhere.
std::optional<std::string> digits_without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const auto is_digit = [&](std::size_t at) {
      return at < text.size() && std::isxdigit(static_cast<unsigned char>(text[at])) != 0;
    };
    if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  const std::optional<std::string> plain = digits_without_underscores(strip(text, nullptr, Side::kBoth));
  if (!plain) return std::nullopt;
  std::string_view digits = *plain;
  bool negative = false;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    negative = digits[0] == '-';
    digits.remove_prefix(1);
  }
  if (digits.size() > 2 && digits[0] == '0') {
    const char mark = static_cast<char>(digits[1] | 0x20);
    const std::int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked != 0 && (base == 0 || base == marked)) {
      base = marked;
      digits.remove_prefix(2);
    }
  }
  if (base == 0) base = 10;
  if (digits.empty() || digits[0] == '-' || digits[0] == '+') return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, static_cast<int>(base));
  if (end != digits.data() + digits.size()) return std::nullopt;
  const std::uint64_t most = static_cast<std::uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  if (error == std::errc::result_out_of_range || value > most) fail("an integer does not fit 64 bits");
  if (error != std::errc()) return std::nullopt;
  return static_cast<std::int64_t>(negative ? ~value + 1 : value);
}

std::optional<double> parse_float(std::string_view text) {
  const std::optional<std::string> plain = digits_without_underscores(strip(text, nullptr, Side::kBoth));
  if (!plain || plain->empty()) return std::nullopt;
  std::string_view digits = *plain;
  bool negative = false;
  if (digits[0] == '-' || digits[0] == '+') {
    negative = digits[0] == '-';
    digits.remove_prefix(1);
  }
  std::string word;
  for (const char c : digits.substr(0, 9))
    word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  double value = 0;
  if (word == "inf" || word == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (word == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (digits.empty() || std::isalpha(static_cast<unsigned char>(digits[0])) != 0 || digits[0] == '-') {
      return std::nullopt;
    }
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (end != digits.data() + digits.size()) return std::nullopt;
    if (error == std::errc::result_out_of_range) {
      value = std::strtod(std::string(digits).c_str(), nullptr);  // infinity or zero, whichever is nearer
    } else if (error != std::errc()) {
      return std::nullopt;
    }
  }
  return negative ? -value : value;
}

std::optional<std::int64_t> truncate_to_integer(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (!(value < 9223372036854775808.0 && value >= -9223372036854775808.0)) {
    fail("an integer does not fit 64 bits");
  }
  return static_cast<std::int64_t>(value);
}

double round_to(double value, std::int64_t digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / unit) * unit;
  }
  // printf rounds the exact binary value, ties to even, as Python does.
  char buffer[700];
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), value);
  return std::strtod(buffer, nullptr);
}

}  // namespace reprise::protocol::jinja
