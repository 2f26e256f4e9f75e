// Items, attributes and slices. The expected values are those of Jinja2 3.1 configured as in transformers.
#include <gtest/gtest.h>

#include "tests/protocol/jinja/render_cases.h"

namespace reprise::protocol::jinja::test {
namespace {

// clang-format off
constexpr Case kSubscriptCases[] = {
    {"{{ lst[0] }} {{ lst[-1] }} {{ lst[1:] }} {{ lst[:-1] }} {{ lst[::-1] }} {{ lst[::2] }} {{ lst[5:] }} {{ lst[-2:] }}", "3 2 [1, 2] [3, 1] [2, 1, 3] [3, 2] [] [1, 2]"},
    {"{{ s[1] }} {{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ u[1] }} {{ u[1:] }} {{ u[::-1] }} {{ u[:2] }} {{ s[0:11:3] }}", "é d éll dlröw olléh 本 本語 語本日 日本 hlwl"},
    {"{{ d.a }} {{ d['b'] }} {{ d.missing }}| {{ d['missing'] }}| {{ nested.a.b[0].c }} {{ nested['a']['b'][0]['c'] }}", "1 two | | deep deep"},
    {"{{ d['items'] }} {{ d.items() | list }}", "shadow [('a', 1), ('b', 'two'), ('items', 'shadow')]"},
    {"{{ lst.0 }} {{ nested.a.b.0.c }}", "3 deep"},
    {"{{ lst[10] }}|{{ lst['x'] }}|{{ none.foo }}|{{ 'abc'.nothing }}|{{ 5 .foo }}", "||||"},
    {"{{ messages[0]['role'] }} {{ messages[-1].content }} {{ messages[1:] | length }} {{ messages[0].role[0] }}", "system Hello 2 s"},
    {"{{ (1,2,3)[1] }} {{ [1,2,3][1:2] }} {{ 'abc'[1] }} {{ {'k': 'v'}['k'] }} {{ {'k': 'v'}.k }}", "2 [2] b v v"},
    {"{{ range(5)[2] }} {{ range(10)[2:5] | list }} {{ range(3) }}", "2 [2, 3, 4] range(0, 3)"},
    {"{{ lst[true] }} {{ lst[1:1] }} {{ ''[0:1] }}|{{ lst[2:0:-1] }} {{ lst[-100:100] }} {{ s[::-2] }}", "1 [] |[2, 1] [3, 1, 2] drwolh"},
    {"{{ d.get('a') }} {{ d.get('zz') }} {{ d.get('zz', 'def') }} {{ d.keys() | list }} {{ d.values() | list }}", "1 None def ['a', 'b', 'items'] [1, 'two', 'shadow']"},
    {"{{ d.items() }} {{ d.keys() }} {{ d.values() }}", "dict_items([('a', 1), ('b', 'two'), ('items', 'shadow')]) dict_keys(['a', 'b', 'items']) dict_values([1, 'two', 'shadow'])"},
    {"{{ x is none }} {{ x.y is undefined }}", "True True"},
    {"{{ messages[2].tool_calls[0].function.arguments.y[2] }}", "True"},
    {"{{ d | attr('a') }}|{{ 'x'|attr('upper') is callable }}", "|True"},
};
// clang-format on

TEST(Jinja, Subscripts) {
  check_cases(kSubscriptCases);
}

}  // namespace
}  // namespace reprise::protocol::jinja::test
