// Tests with `is`. The expected values are those of Jinja2 3.1 configured as in transformers.
#include <gtest/gtest.h>

#include "tests/protocol/jinja/render_cases.h"

namespace reprise::protocol::jinja::test {
namespace {

// clang-format off
constexpr Case kIsTestCases[] = {
    {"{{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ 'a' is number }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is integer }} {{ 1.0 is float }} {{ 1 is float }}", "True True True False True False False True False"},
    {"{{ 'a' is string }} {{ 1 is string }} {{ d is mapping }} {{ lst is mapping }} {{ lst is sequence }} {{ 'a' is sequence }} {{ d is sequence }} {{ 1 is sequence }} {{ (1,) is sequence }} {{ d.items() is sequence }} {{ d.items() is iterable }} {{ range(2) is sequence }}", "True False True False True True True False True False True True"},
    {"{{ lst is iterable }} {{ 1 is iterable }} {{ none is iterable }} {{ 'a' is iterable }} {{ d is iterable }} {{ lst|map('string') is iterable }} {{ lst|map('string') is sequence }}", "True False False True True True False"},
    {"{{ true is boolean }} {{ 1 is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }} {{ none is none }} {{ x is none }} {{ 0 is none }}", "True False True False True False True True False"},
    {"{{ 3 is odd }} {{ 3 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 3 is eq 3 }} {{ 3 is ne 3 }} {{ 3 is lt 4 }} {{ 3 is gt 4 }} {{ 3 is le 3 }} {{ 3 is ge 4 }} {{ 3 is equalto 3 }} {{ 3 is sameas 3 }} {{ 3 is greaterthan 2 }} {{ 3 is lessthan 2 }}", "True False True False True False True False True False True True True False"},
    {"{{ 'a' is in ['a'] }} {{ 'a' is not in ['a'] }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'Abc' is lower }} {{ '1' is lower }} {{ 'upper' is filter }} {{ 'nofilter' is filter }} {{ 'odd' is test }} {{ 'x' is test }}", "True False True True False False True False True False"},
    {"{{ raise_exception is callable }} {{ 'x' is callable }} {{ 'x'.upper is callable }} {{ range is callable }} {{ undefined_x is callable }}", "True False True True True"},
    {"{{ 1 is not odd }} {{ not 1 is odd }} {{ n is defined and n is number }} {{ n is not defined or n is odd }} {{ (n is odd) == true }}", "False False True True True"},
    {"{{ 'x' is escaped }} {{ ('x'|e) is escaped }} {{ 1 is undefined }} {{ true is sameas true }} {{ 1 is sameas true }}", "False True False True False"},
    {"{{ [1,'a',none,2.5] | select('number') | list }} {{ [1,2,3,4] | reject('odd') | list }} {{ [0,1,'',none,'a'] | select | list }} {{ [1,2,3] | select('>', 1) | list }} {{ [1,2,3] | select('divisibleby', 3) | list }}", "[1, 2.5] [2, 4] [1, 'a'] [2, 3] [3]"},
    {"{{ people | selectattr('age', 'equalto', 3) | map(attribute='name') | list }} {{ people | rejectattr('age', '==', 3) | map(attribute='name') | join }} {{ people | selectattr('nope') | list }} {{ people | selectattr('nope', 'undefined') | list | length }} {{ people | selectattr('city', 'in', ['Oslo']) | list | length }}", "['Bo', 'Cy'] al [] 3 1"},
    {"{{ 'a' is odd }}", kFails},
    {"{{ none is odd }}", kFails},
    {"{{ 3 is divisibleby 0 }}", kFails},
    {"{{ 1 is string is odd }}", kFails},
    {"{{ messages | selectattr('tool_calls', 'defined') | list | length }} {{ messages|selectattr('role','equalto','system')|map(attribute='content')|first }}", "1 Be terse."},
    {"{{ 'a' is string or 1/0 }}", "True"},
    {"{{ d is mapping and 'a' in d }} {{ lst is iterable and lst is not string and lst is not mapping }}", "True True"},
};
// clang-format on

TEST(Jinja, IsTests) {
  check_cases(kIsTestCases);
}

}  // namespace
}  // namespace reprise::protocol::jinja::test
