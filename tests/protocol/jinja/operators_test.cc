// Operators and their precedence. The expected values are those of Jinja2 3.1 configured as in transformers.
#include <gtest/gtest.h>

#include "tests/protocol/jinja/render_cases.h"

namespace reprise::protocol::jinja::test {
namespace {

// clang-format off
constexpr Case kOperatorCases[] = {
    {"{{ 7 + 2 }} {{ 7 - 2 }} {{ 7 * 2 }} {{ 7 / 2 }} {{ 7 // 2 }} {{ 7 % 2 }} {{ 7 ** 2 }}", "9 5 14 3.5 3 1 49"},
    {"{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ -7 // -2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }}", "-4 2 -2 3 3.0 0.5 0.5 1.4142135623730951"},
    {"{{ 6 / 3 }} {{ 1 + 1.0 }} {{ true + 1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}", "2.0 2.0 2 64 4"},
    {"{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ 3 * 'x' }} {{ [1] + [2] }} {{ [0] * 3 }} {{ (1,) + (2,) }} {{ 'x' * -1 }}", "ab ababab xxx [1, 2] [0, 0, 0] (1, 2) "},
    {"{{ 'a' ~ 1 ~ none ~ 2.0 ~ [1] }}", "a1None2.0[1]"},
    {"{{ 1 + 2 ~ 3 }} {{ 1 ~ 2 + 3 }}", kFails},
    {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }} {{ true == 1 }} {{ none == none }}", "True False True True True True True"},
    {"{{ 'a' in 'abc' }} {{ 1 in [1,2] }} {{ 'a' in d }} {{ 'z' not in d }} {{ 3 in (1,2) }} {{ not 1 in [1] }}", "True True True True False False"},
    {"{{ 1 and 2 }} {{ 0 or 'x' }} {{ '' or none }} {{ [] and 1 }} {{ not '' }} {{ not not 1 }}", "2 x None [] True True"},
    {"{{ 'yes' if n > 5 else 'no' }} {{ 'only' if false }}|{{ 'a' if false else 'b' if false else 'c' }}", "yes |c"},
    {"{{ '%s is %d and %.2f' % ('x', 3, 2.5) }} {{ '%5d|%-5s|%05d|%x' % (42, 'ab', 42, 255) }} {{ '%s' % 'one' }} {{ '%%' % () }}", "x is 3 and 2.50    42|ab   |00042|ff one %"},
    {"{{ '%(a)s-%(b)s' % {'a': 1, 'b': 2} }} {{ '%r' % 'q' }} {{ '%+d % d' % (3, 4) }} {{ '%e %g' % (12345.678, 0.00001) }} {{ '%c%c' % ('a', 98) }}", "1-2 'q' +3  4 1.234568e+04 1e-05 ab"},
    {"{{ 10 - 2 - 3 }} {{ 100 // 7 // 2 }} {{ 2 * 3 + 4 * 5 }} {{ (2 + 3) * 4 }} {{ 10 % 4 * 2 }}", "5 7 26 20 4"},
    {"{{ 'a' == 'a' }} {{ 1 != 2 }} {{ [1] == [1] }} {{ [1] == (1,) }} {{ {'a':1} == {'a':1.0} }} {{ 'a' == 1 }}", "True True True False True False"},
    {"{{ 1 is odd and 2 is even }} {{ 'x' is string and not none }}", "True True"},
    {"{{ n > 5 and n < 10 or false }}", "True"},
    {"{{ undefined_var == other_undefined }} {{ undefined_var == none }} {{ undefined_var or 'dflt' }}", "True False dflt"},
    {"{{ 'x' if undefined_var else 'y' }}", "y"},
    {"{{ 0.1 + 0.7 }} {{ 1/3 }} {{ 1e308 * 10 }} {{ 5 // 0.3 }} {{ 3 * 1.5 }}", "0.7999999999999999 0.3333333333333333 inf 16.0 4.5"},
    {"{{ 7.0 }} {{ 7.0 // 2 }} {{ 2 ** 62 }} {{ 10 ** 3 }} {{ 0 ** 0 }}", "7.0 3.0 4611686018427387904 1000 1"},
    {"{{ 1 if true else 2 + 3 }} {{ (1 if false else 2) + 3 }}", "1 5"},
    {"{{ not n == 7 }} {{ n == 7 == true }}", "False False"},
};
// clang-format on

TEST(Jinja, Operators) {
  check_cases(kOperatorCases);
}

}  // namespace
}  // namespace reprise::protocol::jinja::test
