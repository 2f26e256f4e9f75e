#include "tools/reprise/json_text.h"

#include <cmath>
#include <cstdio>

#include "base/json_text.h"

namespace reprise::tools {

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string json_array(std::span<const std::int32_t> ids) {
  std::string out = "[";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i != 0) out += ',';
    out += std::to_string(ids[i]);
  }
  return out + ']';
}

std::string json_array(std::span<const float> values) {
  std::string out = "[";
  char number[32];
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != 0) out += ',';
    if (std::isfinite(values[i])) {
      std::snprintf(number, sizeof(number), "%.9g", static_cast<double>(values[i]));
      out += number;
    } else {
      out += "null";
    }
  }
  return out + ']';
}

}  // namespace reprise::tools
