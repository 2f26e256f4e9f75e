#include "protocol/jinja/format_spec.h"

#include <cmath>
#include <cstdio>

#include "base/json_text.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/unicode.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
namespace {

constexpr int kMaxPrecision = 1000;

bool is_align(char32_t c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

std::size_t read_number(std::string_view text, std::size_t& at) {
  std::size_t number = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    number = number * 10 + static_cast<std::size_t>(text[at++] - '0');
    if (number > 1'000'000'000) fail("Too many decimal digits in format string");
  }
  return number;
}

std::string digits_in_base(std::uint64_t value, unsigned base, bool upper) {
  const char* const digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  do {
    out.insert(out.begin(), digits[value % base]);
    value /= base;
  } while (value > 0);
  return out;
}

// Puts a separator between groups of the digits in front of the point.
std::string grouped(std::string text, char separator, std::size_t group) {
  std::size_t end = 0;
  while (end < text.size() && std::isxdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
  for (std::size_t at = end; at > group;) {
    at -= group;
    text.insert(at, 1, separator);
  }
  return text;
}

std::string with_sign(bool negative, char sign, std::string text) {
  if (negative) return "-" + text;
  return sign == '-' ? text : std::string(1, sign) + text;
}

// Python keeps ".0" on a float that looks like an integer when no type is asked for.
std::string general_digits(double value, int precision, bool alternate, bool upper, bool keep_point) {
  char buffer[kMaxPrecision + 400];
  const char* form = alternate ? (upper ? "%#.*G" : "%#.*g") : (upper ? "%.*G" : "%.*g");
  const int count = std::snprintf(buffer, sizeof buffer, form, precision, value);
  std::string out(buffer, static_cast<std::size_t>(count));
  if (keep_point && out.find_first_of(".eEn") == out.npos) out += ".0";
  return out;
}

}  // namespace

FormatSpec parse_format_spec(Workspace& workspace, std::string_view text) {
  FormatSpec spec;
  spec.is_empty = text.empty();
  std::size_t at = 0;
  if (!text.empty()) {
    std::size_t behind = 0;
    const char32_t first = next_code_point(text, behind);
    if (behind < text.size() && is_align(static_cast<unsigned char>(text[behind]))) {
      spec.fill = first;
      spec.align = text[behind];
      at = behind + 1;
    } else if (is_align(first)) {
      spec.align = text[0];
      at = 1;
    }
  }
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  if (peek() == '+' || peek() == '-' || peek() == ' ') {
    spec.sign = text[at++];
    spec.sign_given = true;
  }
  if (peek() == '#') spec.alternate = (++at, true);
  if (peek() == '0') {
    ++at;
    spec.zero = true;
    if (spec.align == 0) {
      spec.fill = '0';
      spec.align = '=';
    }
  }
  spec.width = read_number(text, at);
  workspace.check_text(spec.width);
  if (peek() == ',' || peek() == '_') spec.grouping = text[at++];
  if (peek() == '.') {
    const std::size_t start = ++at;
    const std::size_t precision = read_number(text, at);
    if (at == start) fail("Format specifier missing precision");
    workspace.check_text(precision);
    spec.precision = static_cast<int>(precision);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) fail("Invalid format specifier");
  return spec;
}

std::string format_integer(std::int64_t value, const FormatSpec& spec) {
  const bool negative = value < 0;
  const std::uint64_t size =
      negative ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
  const unsigned base = spec.type == 'x' || spec.type == 'X' ? 16
                        : spec.type == 'o'                   ? 8
                        : spec.type == 'b'                   ? 2
                                                             : 10;
  std::string digits = digits_in_base(size, base, spec.type == 'X');
  if (spec.grouping != 0) digits = grouped(std::move(digits), spec.grouping, base == 10 ? 3 : 4);
  if (spec.alternate && base != 10) digits.insert(0, std::string("0") + spec.type);
  return with_sign(negative, spec.sign, std::move(digits));
}

std::string format_double(double value, const FormatSpec& spec) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  double size = std::fabs(value);
  if (spec.precision.value_or(0) > kMaxPrecision) fail("precision too big");
  std::string digits;
  const bool upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
  if (!std::isfinite(size)) {
    digits = std::isnan(size) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf");
  } else if (spec.type == 'g' || spec.type == 'G' || spec.type == 'n') {
    digits = general_digits(size, spec.precision.value_or(6), spec.alternate, upper, false);
  } else if (spec.type == 0) {
    if (spec.precision) {
      digits = general_digits(size, *spec.precision, spec.alternate, false, true);
    } else {
      append_python_double(digits, size);
    }
  } else {
    char buffer[kMaxPrecision + 400];
    const bool percent = spec.type == '%';
    const char* form = spec.type == 'e' ? "%.*e" : spec.type == 'E' ? "%.*E" : "%.*f";
    if (percent) size *= 100;
    const int count = std::snprintf(buffer, sizeof buffer, form, spec.precision.value_or(6), size);
    digits.assign(buffer, static_cast<std::size_t>(count));
    if (percent) digits += '%';
  }
  if (spec.grouping != 0 && std::isfinite(size)) digits = grouped(std::move(digits), spec.grouping, 3);
  return with_sign(negative, spec.sign, std::move(digits));
}

std::string pad(Workspace& workspace, std::string text, const FormatSpec& spec, bool is_number) {
  const std::size_t length = count_code_points(text);
  if (length >= spec.width) return text;
  const std::size_t missing = spec.width - length;
  workspace.check_text(text.size() + missing * 4);
  const char align = spec.align != 0 ? spec.align : is_number ? '>' : '<';
  std::string fill;
  append_utf8(fill, spec.fill);
  const auto repeat = [&](std::size_t count) {
    std::string out;
    for (std::size_t i = 0; i < count; ++i) out += fill;
    return out;
  };
  if (align == '<') return text + repeat(missing);
  if (align == '^') return repeat(missing / 2) + text + repeat(missing - missing / 2);
  if (align == '=') {
    std::size_t prefix = !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ') ? 1 : 0;
    if (spec.alternate && text.size() > prefix + 1 && text[prefix] == '0' &&
        std::isalpha(static_cast<unsigned char>(text[prefix + 1])) != 0) {
      prefix += 2;
    }
    return text.substr(0, prefix) + repeat(missing) + text.substr(prefix);
  }
  return repeat(missing) + text;
}

std::string format_value(Workspace& workspace, const Value& value, const FormatSpec& spec) {
  const auto refuse = [&] {
    fail({"Unknown format code '", std::string_view(&spec.type, 1), "' for object of type '",
          type_name(value), "'"});
  };
  const std::string_view type(&spec.type, spec.type == 0 ? 0 : 1);
  if (spec.is_empty) return to_str(workspace, value);
  if (value.is_integral()) {
    if (type.find_first_of("eEfFgG%") != type.npos) {
      return pad(workspace, format_double(value.as_double(), spec), spec, true);
    }
    if (type.find_first_not_of("dxXobn") != type.npos) refuse();
    if (spec.precision) fail("Precision not allowed in integer format specifier");
    return pad(workspace, format_integer(value.as_int(), spec), spec, true);
  }
  if (value.is_float()) {
    if (type.find_first_not_of("eEfFgGn%") != type.npos) refuse();
    return pad(workspace, format_double(value.as_double(), spec), spec, true);
  }
  if (!value.is_string()) {
    fail({"unsupported format string passed to ", type_name(value), ".__format__"});
  }
  if (type.find_first_not_of("s") != type.npos) refuse();
  if (spec.sign_given) fail("Sign not allowed in string format specifier");
  if (spec.grouping != 0) fail("Cannot specify a grouping with 's'.");
  std::string text = to_str(workspace, value);
  if (spec.precision) text.resize(byte_offset(text, static_cast<std::size_t>(*spec.precision)));
  FormatSpec plain = spec;
  if (spec.align == '=') {
    if (!spec.zero) fail("'=' alignment not allowed in string format specifier");
    plain.align = '<';
  }
  return pad(workspace, std::move(text), plain, false);
}

}  // namespace reprise::protocol::jinja
