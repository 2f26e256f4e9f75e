#pragma once
// Writing JSON by hand: the few shapes that the commands print.
//
// Threading: pure functions.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace reprise::tools {

/// With quotes. `text` is UTF-8.
std::string json_string(std::string_view text);
std::string json_array(std::span<const std::int32_t> ids);
/// Nine significant digits, which bring a float back; null for what JSON cannot say.
std::string json_array(std::span<const float> values);

}  // namespace reprise::tools
