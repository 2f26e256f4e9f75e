// Undefined names, and templates that must fail. The expected values are those of Jinja2 3.1 configured as in
// transformers.
#include <gtest/gtest.h>

#include "tests/protocol/jinja/render_cases.h"

namespace reprise::protocol::jinja::test {
namespace {

// clang-format off
constexpr Case kUndefinedCases[] = {
    {"[{{ nothing }}] {{ nothing is defined }} {{ nothing is undefined }} {{ nothing | default('d') }} {{ nothing | length }}", "[] False True d 0"},
    {"{{ d.nothing is defined }} {{ d.a is defined }} {{ d.nothing | default('x') }} {{ x | default('y') }} {{ x | default('y', true) }} {{ '' | default('z', true) }} {{ '' | d('z', boolean=true) }}", "False True x None y z z"},
    {"{% for q in nothing %}{{ q }}{% else %}none{% endfor %}", "none"},
    {"{{ nothing ~ 'x' }} {{ nothing | list }} {{ nothing | join(',') }}| {{ nothing | trim }}|{{ nothing | upper }}|{{ nothing | string }}|{{ nothing|replace('a','b') }}|", "x [] | ||||"},
    {"{{ [nothing] }} {{ {'a': nothing} }} {{ 1 in nothing }} {{ nothing in [1] }} {{ nothing is none }} {{ nothing is iterable }} {{ nothing is sequence }} {{ nothing is string }} {{ nothing is mapping }} {{ nothing is number }}", "[Undefined] {'a': Undefined} False False False True True False False False"},
    {"{{ '%s' % nothing }}| {{ 'a,b'.split(',')[5] }}| {{ nothing|e }}|{{ nothing|first }}|{{ nothing|sort }}|{{ nothing|reverse|list }}", "| | ||[]|[]"},
    {"{% if nothing %}a{% elif not nothing %}b{% endif %}{{ (nothing or {}).get('a', 'q') }}", "bq"},
    {"{{ nothing.attr }}", kFails},
    {"{{ nothing['x'] }}", kFails},
    {"{{ nothing + 1 }}", kFails},
    {"{{ 'a' + nothing }}", kFails},
    {"{{ nothing() }}", kFails},
    {"{{ d.foo.bar }}", kFails},
    {"{{ d.foo() }}", kFails},
    {"{{ nothing < 1 }}", kFails},
    {"{{ nothing | tojson }}", kFails},
    {"{{ nothing | int }}", kFails},
    {"{{ -nothing }}", kFails},
    {"{{ nothing[1:] }}", kFails},
    {"{{ none + 1 }}", kFails},
    {"{{ none.foo.bar }}", kFails},
    {"{{ none | length }}", kFails},
    {"{% for a in none %}{% endfor %}", kFails},
    {"{% for a in 5 %}{% endfor %}", kFails},
    {"{{ 'a' + 1 }}", kFails},
    {"{{ 1 + 'a' }}", kFails},
    {"{{ [1] + (2,) }}", kFails},
    {"{{ 1 / 0 }}", kFails},
    {"{{ 1 < 'a' }}", kFails},
    {"{{ 1 in 5 }}", kFails},
    {"{{ 1 in 'a' }}", kFails},
    {"{{ lst.append(4) }}", kFails},
    {"{{ d.update({'a': 2}) }}", kFails},
    {"{{ d.pop('a') }}", kFails},
    {"{{ lst.append is defined }} {{ d.update is defined }}", "False False"},
    {"{{ 'x'.__class__ }}|", "|"},
    {"{{ 'x'.__class__.__mro__ }}", kFails},
    {"{{ d.__class__() }}", kFails},
    {"{{ {[1]: 2} }}", kFails},
    {"{{ raise_exception('stop here') }}", kFails},
    {"{{ range(200000) }}", kFails},
    {"{{ undefined_function(1) }}", kFails},
    {"{{ 'abc' | nofilter }}", kFails},
    {"{{ 'abc' is notest }}", kFails},
    {"{{ 5() }}", kFails},
    {"{{ 'x'() }}", kFails},
    {"{{ 5[0] }}|{{ none[0] }}|", "||"},
    {"{% set a, b = [1] %}", kFails},
    {"{% set a, b = [1,2,3] %}", kFails},
    {"{% set a, b = 5 %}", kFails},
    {"{% set nothing.x = 1 %}", kFails},
    {"{% set q = 'x' if false %}[{{ q }}] {{ q is defined }}", "[] False"},
    {"{{ ('x' if false).foo }}", kFails},
};
// clang-format on

TEST(Jinja, Undefined) {
  check_cases(kUndefinedCases);
}

}  // namespace
}  // namespace reprise::protocol::jinja::test
