// Every limit is enforced, with an error that names it, on a small stack.
#include <gtest/gtest.h>

#include <functional>

#include "tests/protocol/jinja/render_cases.h"
#include "tests/small_stack.h"

namespace reprise::protocol::jinja::test {
namespace {

std::string limited(std::string_view source, const std::function<void(RenderLimits&)>& set,
                    std::string_view context = "{}") {
  std::string result;
  on_small_stack([&] {
    RenderOptions options;
    set(options.limits);
    const auto compiled = Template::compile(source);
    if (!compiled.ok()) {
      result = compiled.error().describe();
      return;
    }
    const auto json = Json::parse(context);
    const auto text = compiled->render(*json, options);
    if (text.ok()) {
      result = "rendered " + std::to_string(text->size()) + " bytes";
    } else {
      EXPECT_EQ(text.error().kind, TemplateError::Kind::kLimit) << text.error().describe();
      result = text.error().reason;
    }
  });
  return result;
}

std::string repeated(std::string_view piece, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += piece;
  return out;
}

TEST(JinjaLimits, Steps) {
  const auto few = [](RenderLimits& limits) { limits.steps = 10'000; };
  const std::string reason = "the rendering took more than 10000 steps";
  EXPECT_EQ(limited("{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}", few),
            reason);
  EXPECT_EQ(limited("{% set s = 'x' * 1000000 %}{{ s | upper | lower }}", few), reason);
  EXPECT_EQ(limited("{{ range(90000) | list | length }}", few), reason);
  EXPECT_EQ(limited("{% for a in range(100) %}{{ a }}{% endfor %}", few), "rendered 190 bytes");
}

TEST(JinjaLimits, Strings) {
  const auto small = [](RenderLimits& limits) { limits.text_bytes = 1000; };
  for (const char* source :
       {"{{ 'a' * 10**9 }}", "{% set s = 'a' * 999 %}{{ s + s }}", "{% set s = 'a' * 999 %}{{ s ~ s }}",
        "{{ ('ab' * 400) | replace('b', 'cccc') }}", "{{ 'a'.ljust(10**9) }}", "{{ 'a'.zfill(10**9) }}",
        "{{ '%1000000000d' % 1 }}", "{{ '{:1000000000}'.format(1) }}", "{{ ('aa' * 499).join('abcd') }}",
        "{{ 'a' | center(10**9) }}", "{{ ['a' * 900, 'b' * 900] | join }}",
        "{{ ('\n' * 500) | indent(10, blank=true) }}", "{{ ['a' * 900, 'b' * 900] | tojson }}",
        "{{ [1] | tojson(indent=10**9) }}", "{% set x %}{{ 'a' * 900 }}{{ 'a' * 900 }}{% endset %}"}) {
    const std::string reason = limited(source, small);
    EXPECT_TRUE(reason.starts_with("a string would have ") && reason.ends_with(" bytes; the limit is 1000"))
        << source << ": " << reason;
  }
}

TEST(JinjaLimits, Lists) {
  const auto small = [](RenderLimits& limits) { limits.items = 1000; };
  for (const char* source :
       {"{{ [0] * 10**9 }}", "{% set l = [0] * 999 %}{{ l + l }}", "{{ ('a' * 2000) | list }}",
        "{{ ('a,' * 2000).split(',') }}", "{{ range(2000) }}", "{{ [1] | batch(10**9, 'x') | list }}",
        "{{ [1] | slice(10**9) | list }}", "{{ ('\n' * 2000).splitlines() }}"}) {
    const std::string reason = limited(source, small);
    EXPECT_TRUE(reason.starts_with("a list would have ") && reason.ends_with(" items; the limit is 1000"))
        << source << ": " << reason;
  }
  EXPECT_EQ(limited("{{ range(10**9) }}", [](RenderLimits&) {}),
            "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
}

TEST(JinjaLimits, Output) {
  const auto small = [](RenderLimits& limits) { limits.output_bytes = 1000; };
  const std::string reason = "the output has more than 1000 bytes";
  EXPECT_EQ(limited("{% for i in range(2000) %}x{% endfor %}", small), reason);
  EXPECT_EQ(limited("{{ 'x' * 1001 }}", small), reason);
  EXPECT_EQ(limited("{{ 'x' * 1000 }}", small), "rendered 1000 bytes");
  // Text buffered by macros and blocks counts until they end.
  EXPECT_EQ(limited("{% macro m() %}{{ 'x' * 900 }}{% endmacro %}{{ 'y' * 200 }}{{ m() }}", small), reason);
  EXPECT_EQ(limited("{% for i in range(9) %}{% set b %}{{ 'x' * 900 }}{% endset %}{% endfor %}", small),
            "rendered 0 bytes");
}

TEST(JinjaLimits, Memory) {
  const auto small = [](RenderLimits& limits) { limits.memory_bytes = 1'000'000; };
  EXPECT_EQ(limited("{% set ns = namespace(l=[]) %}{% for i in range(100) %}"
                    "{% set ns.l = ns.l + ['x' * 100000] %}{% endfor %}",
                    small),
            "the values of this rendering need more than 1000000 bytes of memory");
  // Freed values do not count.
  EXPECT_EQ(limited("{% for i in range(100) %}{% set s = 'x' * 100000 %}{% endfor %}", small),
            "rendered 0 bytes");
}

TEST(JinjaLimits, Recursion) {
  const std::string reason = "evaluation is nested deeper than 1000 levels";
  const auto none = [](RenderLimits&) {};
  EXPECT_EQ(limited("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", none), reason);
  EXPECT_EQ(limited("{% macro m() %}{% call m() %}{% endcall %}{{ caller }}{% endmacro %}{{ m() }}", none),
            reason);
  EXPECT_EQ(limited("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", none), reason);
  EXPECT_EQ(limited("{% set ns = namespace() %}{% set ns.self = ns %}{{ ns }}", none), reason);
}

TEST(JinjaLimits, NestedValues) {
  const std::string reason = "a value is nested deeper than 200 levels";
  const auto none = [](RenderLimits&) {};
  EXPECT_EQ(
      limited("{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}",
              none),
      reason);
  EXPECT_EQ(
      limited(
          "{% set ns = namespace(l={}) %}{% for i in range(9999) %}{% set ns.l = {'a': ns.l} %}{% endfor %}",
          none),
      reason);
  EXPECT_EQ(
      limited(
          "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l.index] %}{% endfor %}",
          none),
      reason);
  EXPECT_EQ(limited("{% set ns = namespace(l=[]) %}{% for i in range(9999) %}"
                    "{% set ns.l = [ns.l] | map('list') %}{% endfor %}",
                    none),
            reason);
}

TEST(JinjaLimits, LongChainsOfObjectsAreFreed) {
  const auto none = [](RenderLimits&) {};
  EXPECT_EQ(limited("{% set ns = namespace(x=0) %}{% for i in range(50000) %}"
                    "{% set ns.x = namespace(x=ns.x) %}{% endfor %}",
                    none),
            "rendered 0 bytes");
  EXPECT_EQ(limited("{% set ns = namespace(x=0) %}{% for i in range(50000) %}"
                    "{% set ns.x = joiner(ns.x) %}{% endfor %}",
                    none),
            "rendered 0 bytes");
  EXPECT_EQ(limited("{% set ns = namespace(x=0) %}{% for i in range(50000) %}"
                    "{% set ns.x = cycler(ns.x, loop) %}{% endfor %}",
                    none),
            "rendered 0 bytes");
}

TEST(JinjaLimits, RingsOfObjectsAreFreed) {  // checked by the address sanitizer
  EXPECT_EQ(
      rendered("{% set ns = namespace() %}{% set ns.me = ns %}{% macro m() %}{% endmacro %}{% set ns.m = m %}"
               "{% for i in [1] %}{% set ns.loop = loop %}{% set ns.c = loop.changed %}{{ ns.c(ns, ns.c) }}"
               "{% macro n() %}{{ loop }}{% endmacro %}{% set ns.n = n %}{% endfor %}"),
      "True");
  EXPECT_EQ(rendered("{% set ns = namespace() %}{% for i in [1] %}{% set ns.c = loop.changed %}{% endfor "
                     "%}{{ ns.c(1) }}"),
            "error: line 1: the loop has ended");
}

TEST(JinjaLimits, NestingOfTheSource) {
  const auto none = [](RenderLimits&) {};
  const std::string reason = "line 1: the template is nested deeper than 200 levels";
  for (const char* opening : {"(", "[", "{1:", "-", "not ", "f(", "1 if 0 else ", "x[", "1|f("}) {
    EXPECT_EQ(limited("{{ " + repeated(opening, 50'000), none), reason) << opening;
  }
  EXPECT_EQ(limited(repeated("{% if x %}", 50'000), none), reason);
  EXPECT_EQ(limited(repeated("{% for x in y %}", 50'000), none), reason);
  const std::string chain = "line 1: an expression is nested deeper than 400 levels";
  EXPECT_EQ(limited("{{ 1" + repeated("+1", 100'000) + "}}", none), chain);
  EXPECT_EQ(limited("{{ x" + repeated("|f", 100'000) + "}}", none), chain);
  EXPECT_EQ(limited("{{ x" + repeated(".a", 100'000) + "}}", none), chain);
  EXPECT_EQ(limited("{{ x" + repeated("()", 100'000) + "}}", none), chain);
  EXPECT_EQ(limited("{{ x" + repeated(" and y", 100'000) + "}}", none), chain);
  EXPECT_EQ(limited("{{ ''" + repeated(" ~ 'a'", 100'000) + "}}", none), "rendered 100000 bytes");
  EXPECT_EQ(limited("{% if 0 %}" + repeated("{% elif 0 %}", 10'000) + "{% endif %}", none),
            "rendered 0 bytes");
  EXPECT_EQ(limited(std::string(kMaxSourceBytes + 1, 'x'), none),
            "the template has 1048577 bytes; the limit is 1048576");
}

TEST(JinjaLimits, DeepContext) {
  JsonLimits deep;
  deep.depth = 1000;
  const auto json = Json::parse(repeated("{\"a\":", 400) + "1" + repeated("}", 400), deep);
  ASSERT_TRUE(json.ok());
  const auto compiled = Template::compile("{{ a }}");
  const auto text = compiled->render(*json);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().reason, "a value is nested deeper than 200 levels");
}

TEST(JinjaLimits, WorkOnLongKeysAndNumbersIsCounted) {
  const auto few = [](RenderLimits& limits) { limits.steps = 100'000; };
  const std::string reason = "the rendering took more than 100000 steps";
  for (const char* work : {"s | int", "s | float", "{s: 1}[s]", "{}[s]", "{}.get(s)",
                           "[{}] | map(attribute=s) | list", "[{}] | selectattr(s) | list"}) {
    const std::string source =
        "{% set s = 'x' * 1000000 %}{% for i in range(100) %}{% set y = " + std::string(work) +
        " %}{% endfor %}";
    EXPECT_EQ(limited(source, few), reason) << work;
  }
}

// A tuple of twice the same tuple, and so on: 2^60 items.
TEST(JinjaLimits, WorkOnNestedKeysIsCounted) {
  const auto few = [](RenderLimits& limits) { limits.steps = 100'000; };
  for (const char* use : {"{ns.t: 1}", "[ns.t] | unique | list", "{}.get(ns.t)", "{}[ns.t]", "ns.t is filter",
                          "ns.t in {}", "dict([(ns.t, 1)])"}) {
    const std::string source =
        "{% set ns = namespace(t=1) %}{% for i in range(60) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}"
        "{% set y = " +
        std::string(use) + " %}";
    EXPECT_EQ(limited(source, few), "the rendering took more than 100000 steps") << use;
  }
}

TEST(JinjaLimits, ErrorsShowTheBeginningOfLongNames) {
  for (const char* use : {"{}[s]", "{} | attr(s)", "[][s]", "{}[[s]]"}) {
    const auto compiled =
        Template::compile("{% set s = 'x' * 1000000 %}{% set u = " + std::string(use) + " %}{{ u.y }}");
    ASSERT_TRUE(compiled.ok());
    const auto text = compiled->render(Json::object());
    ASSERT_FALSE(text.ok()) << use;
    EXPECT_LT(text.error().reason.size(), 300U) << use;
    EXPECT_NE(text.error().reason.find("xxxx"), std::string::npos) << text.error().reason;
    EXPECT_NE(text.error().reason.find("..."), std::string::npos) << text.error().reason;
  }
}

}  // namespace
}  // namespace reprise::protocol::jinja::test
