// Filters that make or take numbers.
#include <cmath>

#include "base/json_text.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/filters/filters.h"
#include "protocol/jinja/numbers.h"
#include "protocol/jinja/operators.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
namespace {

Value absolute(Workspace&, const Value& input, const Arguments& arguments) {
  const Parameters p("abs", arguments, {});
  if (input.is_undefined()) fail(input.undefined_message());
  if (input.is_float()) return Value(std::fabs(input.as_double()));
  if (!input.is_integral()) fail({"bad operand type for abs(): '", type_name(input), "'"});
  return input.as_int() < 0 ? negate(input) : Value(input.as_int());
}

Value to_int(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("int", arguments, {"default", "base"});
  const Value fallback = p.find(0) != nullptr ? *p.find(0) : Value(std::int64_t{0});
  if (input.is_undefined()) fail(input.undefined_message());
  if (input.is_integral()) return Value(input.as_int());
  std::optional<double> number;
  if (input.is_float()) {
    number = input.as_double();
  } else if (input.is_string()) {
    workspace.work(input.as_string().size());
    if (const auto whole = parse_integer(input.as_string(), p.integer(1, 10))) return Value(*whole);
    number = parse_float(input.as_string());
  }
  const auto whole = number ? truncate_to_integer(*number) : std::nullopt;
  return whole ? Value(*whole) : fallback;
}

Value to_float(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("float", arguments, {"default"});
  if (input.is_undefined()) fail(input.undefined_message());
  if (input.is_number()) return Value(input.as_double());
  if (input.is_string()) {
    workspace.work(input.as_string().size());
    if (const auto number = parse_float(input.as_string())) return Value(*number);
  }
  return p.find(0) != nullptr ? *p.find(0) : Value(0.0);
}

Value round_number(Workspace&, const Value& input, const Arguments& arguments) {
  const Parameters p("round", arguments, {"precision", "method"});
  const std::int64_t precision = p.integer(0, 0);
  const std::string_view method = p.text(1, "common");
  if (method != "common" && method != "ceil" && method != "floor")
    fail("method must be common, ceil or floor");
  if (input.is_undefined()) fail(input.undefined_message());
  if (!input.is_number()) fail({"round works on numbers, not on ", type_name(input)});
  if (method == "common") {
    if (input.is_float()) return Value(round_to(input.as_double(), precision));
    if (precision >= 0) return Value(input.as_int());
    const auto rounded = truncate_to_integer(round_to(input.as_double(), precision));
    return Value(rounded.value_or(0));
  }
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.as_double() * unit;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Value file_size(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("filesizeformat", arguments, {"binary"});
  const bool binary = p.truth(0, false);
  if (input.is_string()) workspace.work(input.as_string().size());
  const std::optional<double> bytes = input.is_number()   ? std::optional(input.as_double())
                                      : input.is_string() ? parse_float(input.as_string())
                                                          : std::nullopt;
  if (!bytes) fail({"filesizeformat works on numbers, not on ", type_name(input)});
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return workspace.text("1 Byte");
  std::string out;
  if (*bytes < base) {
    append_integer(out, static_cast<std::int64_t>(*bytes));
    return workspace.text(out + " Bytes");
  }
  constexpr const char* kDecimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  constexpr const char* kBinary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  double unit = base;
  int i = 0;
  while (i < 7 && *bytes >= unit * base) {
    unit *= base;
    ++i;
  }
  char digits[64];
  std::snprintf(digits, sizeof digits, "%.1f %s", *bytes / unit, binary ? kBinary[i] : kDecimal[i]);
  return workspace.text(digits);
}

constexpr NamedFilter kNumberFilters[] = {
    {"abs", absolute}, {"filesizeformat", file_size}, {"float", to_float},
    {"int", to_int},   {"round", round_number},
};

}  // namespace

std::span<const NamedFilter> number_filters() {
  return kNumberFilters;
}

}  // namespace reprise::protocol::jinja
