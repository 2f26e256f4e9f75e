// Literals, and values printed as by Python. The expected values are those of Jinja2 3.1 configured as in
// transformers.
#include <gtest/gtest.h>

#include "tests/protocol/jinja/render_cases.h"

namespace reprise::protocol::jinja::test {
namespace {

// clang-format off
constexpr Case kLiteralCases[] = {
    {R"J({{ 'a\nb' }}|{{ "q\"q" }}|{{ 'it\'s' }})J", R"J(a
b|q"q|it's)J"},
    {R"J({{ '\x41\u00e9\U0001F600\101\\' }})J", R"J(Aé😀A\)J"},
    {R"J({{ '\q\d' }})J", R"J(\q\d)J"},
    {R"J({{ 'a' 'b' "c" }})J", "abc"},
    {"{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1.5e3 }} {{ 2e-7 }} {{ 1.0 }} {{ 1e22 }} {{ 0.1 + 0.2 }}", "1000 31 5 15 1500.0 2e-07 1.0 1e+22 0.30000000000000004"},
    {"{{ true }} {{ True }} {{ none }} {{ None }} {{ false }}", "True True None None False"},
    {"{{ [1, 'a', none, 2.0, true, [], {}, ()] }}", "[1, 'a', None, 2.0, True, [], {}, ()]"},
    {R"J({{ {'a': 1, "b": [1, 2], 3: none, (1, 2): 'x'} }})J", "{'a': 1, 'b': [1, 2], 3: None, (1, 2): 'x'}"},
    {"{{ (1,) }} {{ () }} {{ (1, 2) }} {{ 1, 2 }}", "(1,) () (1, 2) (1, 2)"},
    {R"J({{ ['it\'s', "say \"x\"", 'both \' and "', 'new\nline', 'tab\t', '\x07', 'é', '\u200b', '\\'] }})J", R"J(["it's", 'say "x"', 'both \' and "', 'new\nline', 'tab\t', '\x07', 'é', '\u200b', '\\'])J"},
    {"{{ u }} {{ u|length }} {{ [u] }}", "日本語 3 ['日本語']"},
    {"{{ big }} {{ one }} {{ 1e16 }} {{ 123456789.123 }} {{ 1e-5 }} {{ 0.0001 }}", "1e+22 1.0 1e+16 123456789.123 1e-05 0.0001"},
    {"{{ 9223372036854775807 }}", "9223372036854775807"},
    {"{{ -0.0 }} {{ - 5 }} {{ +5 }} {{ -(-3) }}", "-0.0 -5 5 3"},
    {"{{ [1,2,] }} {{ {'a':1,} }}", "[1, 2] {'a': 1}"},
    {R"J({{ "multi
line" }})J", R"J(multi
line)J"},
};
// clang-format on

TEST(Jinja, Literals) {
  check_cases(kLiteralCases);
}

}  // namespace
}  // namespace reprise::protocol::jinja::test
