// One Template for many renderings and threads; time linear in the conversation.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/protocol/jinja/render_cases.h"

namespace reprise::protocol::jinja::test {
namespace {

constexpr std::string_view kChat =
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}<{{ m.role }}>"
    "{{ m.content | trim }}{{ messages[loop.index0].role[0] }}{{ m.extra | tojson }}{% endfor %}{{ ns.n }}";

Json conversation(std::size_t messages) {
  Json context = Json::object();
  context["messages"] = Json::array();
  for (std::size_t i = 0; i < messages; ++i) {
    context["messages"].push_back(Json{{"role", i % 2 == 0 ? "user" : "assistant"},
                                       {"content", std::to_string(i) + ". message "},
                                       {"extra", Json{{"i", i}, {"half", 0.5}}}});
  }
  return context;
}

TEST(JinjaTemplate, IsRenderedByManyThreads) {
  const auto compiled = Template::compile(kChat);
  ASSERT_TRUE(compiled.ok()) << compiled.error().describe();
  const Json context = conversation(20);
  const std::string expected = *compiled->render(context);
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (std::string& text : texts) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) text = *compiled->render(context);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, expected);
}

// Returns the minimum steps for rendering n messages, found by varying the limit.
std::uint64_t steps_for(const Template& compiled, const Json& context) {
  std::uint64_t low = 1, high = 50'000'000;
  while (low < high) {
    const std::uint64_t middle = (low + high) / 2;
    RenderOptions options;
    options.limits.steps = middle;
    if (compiled.render(context, options).ok()) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

TEST(JinjaTemplate, WorkGrowsWithTheConversation) {
  const auto compiled = Template::compile(kChat);
  ASSERT_TRUE(compiled.ok());
  const std::uint64_t small = steps_for(*compiled, conversation(50));
  const std::uint64_t large = steps_for(*compiled, conversation(500));
  EXPECT_LT(large, small * 11);
}

TEST(JinjaTemplate, ReadsOnlyTheContextItUses) {
  RenderOptions options;
  options.limits.memory_bytes = 10'000;
  Json context = Json::object();
  context["used"] = "x";
  context["unused"] = std::string(1'000'000, 'y');
  EXPECT_EQ(rendered("{{ used }}", context, options), "x");
  EXPECT_TRUE(rendered("{{ unused }}", context, options).starts_with("error: "));
}

TEST(JinjaTemplate, TheContextMayShadowFunctions) {
  EXPECT_EQ(rendered_over(R"({"range":"mine"})", "{{ range }}"), "mine");
}

TEST(JinjaTemplate, ClockOfTheCaller) {
  RenderOptions options;
  options.now = std::chrono::sys_days(std::chrono::year(2024) / 2 / 29) + std::chrono::hours(23);
  EXPECT_EQ(rendered("{{ strftime_now('%d %b %Y, %A, %H:%M, %G-W%V') }}", Json::object(), options),
            "29 Feb 2024, Thursday, 23:00, 2024-W09");
}

}  // namespace
}  // namespace reprise::protocol::jinja::test
