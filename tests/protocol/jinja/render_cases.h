#pragma once
// Tables of templates and their expected renderings, all with one context.

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "protocol/jinja/template.h"
#include "tests/protocol/jinja/samples.h"

namespace reprise::protocol::jinja::test {

/// Expected instead of a text if compiling or rendering must fail.
inline constexpr std::string_view kFails = "\x01 fails";

struct Case {
  std::string_view source;
  std::string_view expected;
};

/// Returns the text, or "error: line 1: ...".
inline std::string rendered(std::string_view source, const Json& context, const RenderOptions& options = {}) {
  const auto compiled = Template::compile(source);
  std::string error = "error: ";
  if (!compiled.ok()) return error += compiled.error().describe();
  auto text = compiled->render(context, options);
  return text.ok() ? *std::move(text) : error += text.error().describe();
}

inline std::string rendered(std::string_view source) {
  return rendered(source, Json::object());
}

/// Renders with a context given as JSON.
inline std::string rendered_over(std::string_view context, std::string_view source) {
  const auto json = Json::parse(context);
  return json.ok() ? rendered(source, *json) : json.error().message;
}

inline void check_cases(std::span<const Case> cases) {
  const auto context = Json::parse(kContext);
  ASSERT_TRUE(context.ok()) << context.error().message;
  RenderOptions options;
  options.now = std::chrono::system_clock::from_time_t(1'794'657'600);  // 2026-11-14 12:00:00
  for (const Case& each : cases) {
    const std::string text = rendered(each.source, *context, options);
    if (each.expected == kFails) {
      EXPECT_TRUE(text.starts_with("error: ")) << each.source << "\nrendered to: " << text;
    } else {
      EXPECT_EQ(text, each.expected) << each.source;
    }
  }
}

}  // namespace reprise::protocol::jinja::test
