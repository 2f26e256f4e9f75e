#pragma once
// Numbers from text and rounded, as Python does it.
//
// Threading: pure functions.

#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise::protocol::jinja {

/// int(text, base); nothing where Python raises ValueError. Fails for integers past 64 bits.
std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base);

/// float(text); nothing where Python raises ValueError.
std::optional<double> parse_float(std::string_view text);

/// int(value); nothing for infinities and NaN. Fails for integers past 64 bits.
std::optional<std::int64_t> truncate_to_integer(double value);

/// round(value, digits): to the nearest, and to the even one of two that are as near.
double round_to(double value, std::int64_t digits);

}  // namespace reprise::protocol::jinja
