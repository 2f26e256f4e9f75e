// Macros, set, call, with and the other statements. The expected values are those of Jinja2 3.1 configured as
// in transformers.
#include <gtest/gtest.h>

#include "tests/protocol/jinja/render_cases.h"

namespace reprise::protocol::jinja::test {
namespace {

// clang-format off
constexpr Case kStatementCases[] = {
    {"{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c='z') }} {{ m(b=1, a=0) }} {{ m() }}", "12x 13x 12z 01x 2x"},
    {"{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, z=4) }}", "1(2, 3){'z': 4}"},
    {"{% macro m(a) %}[{{ caller() }}{{ a }}]{% endmacro %}{% call m(1) %}body{% endcall %}", "[body1]"},
    {"{% macro m() %}{% for i in [1,2] %}{{ caller(i, y=i*2) }}{% endfor %}{% endmacro %}{% call(x, y=0) m() %}<{{ x }}{{ y }}>{% endcall %}", "<12><24>"},
    {"{% macro rec(n) %}{{ n }}{% if n > 0 %}{{ rec(n - 1) }}{% endif %}{% endmacro %}{{ rec(3) }}", "3210"},
    {"{% set x %}block {{ n }}{% endset %}{{ x }}|{% set y | upper | trim %} abc {% endset %}{{ y }}", "block 7|ABC"},
    {"{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set c = 1, 2 %}{{ c }} {% set (e, g) = [3, 4] %}{{ e }}{{ g }}", "12 (1, 2) 34"},
    {"{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z }} {% with a = 1, b = 2 %}{{ a + b }}{% endwith %}", "1 3"},
    {"{% filter upper %}abc {{ s }}{% endfilter %} {% filter replace('a', 'b') | upper %}banana{% endfilter %}", "ABC HÉLLO WÖRLD BBNBNB"},
    {"{% if n == 1 %}1{% elif n == 7 %}seven{% else %}other{% endif %} {% if false %}{% elif none %}{% else %}e{% endif %}", "seven e"},
    {"{% generation %}model said {{ n }}{% endgeneration %}{% generation %}{% set q = 1 %}{% endgeneration %}{{ q }}", "model said 7"},
    {"{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }} {{ ns.b is defined }} {{ ns }}", "1 False <Namespace {'a': 1}>"},
    {"{% set ns = namespace(d, z=1) %}{{ ns.a }}{{ ns.z }}", "11"},
    {"{% print 'a', 1 %}", "a1"},
    {"{% block foo %}in block{% endblock %} {% block bar %}x{% endblock bar %}", "in block x"},
    {"{% macro outer() %}{% macro inner() %}i{% endmacro %}{{ inner() }}o{% endmacro %}{{ outer() }}", "io"},
    {"{% macro m(x) %}{{ x is defined }}{{ y }}{% endmacro %}{% set y = 5 %}{{ m() }}{{ m(1) }}", "False5True5"},
    {"{% macro m(a=[]) %}{{ a }}{% endmacro %}{{ m() }}{{ m([1]) }} {{ m.name }} {{ m }}", "[][1] m <Macro 'm'>"},
    {"{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(3) }}", "33"},
    {"{% set f = 'lower' %}{{ ['A','B'] | map(f) | join }}", "ab"},
    {"{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "2"},
    {"{% macro m() %}{% set x = 9 %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}{{ x }}", "91"},
    {"{{ joiner is defined }}{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }} {% set j = joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }}c", "Trueabaa a|b|c"},
    {"{{ dict(a=1, b='x') }} {{ dict([('k', 1)]) }} {{ dict({'a': 1}, b=2) }} {{ namespace(a=1).a }}", "{'a': 1, 'b': 'x'} {'k': 1} {'a': 1, 'b': 2} 1"},
    {"{% macro args() %}{{ varargs | join(',') }}{% endmacro %}{{ args(*[1,2,3]) }} {% macro kw(a, b) %}{{ a }}-{{ b }}{% endmacro %}{{ kw(**{'a': 1, 'b': 2}) }}", "1,2,3 1-2"},
    {"{% do lst %}", kFails},
    {"{% unknown %}", kFails},
    {"{% include 'x' %}", kFails},
    {"{% if true %}", kFails},
    {"{% endif %}", kFails},
    {"{{ 1 + }}", kFails},
    {"{{ foo( }}", kFails},
    {"{% for %}{% endfor %}", kFails},
    {"{{ 'unclosed }}", kFails},
    {"{# unclosed", kFails},
    {"{% raw %} unclosed", kFails},
    {"{{ (1, 2 }}", kFails},
    {"{{ a b }}", kFails},
    {"{{ m(1, 2) }}{% macro m(a) %}{% endmacro %}", kFails},
    {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", kFails},
    {"{% macro m(a) %}{% endmacro %}{{ m(z=2) }}", kFails},
    {"{% macro m(a=1, b) %}{% endmacro %}", kFails},
    {"{% set 1 = 2 %}", kFails},
    {"{% set x.y.z = 1 %}", kFails},
    {"{% if n == 7 %}{% set r = 'seven' %}{% else %}{% set r = 'no' %}{% endif %}{{ r }}", "seven"},
    {"{% macro m() %}a{% endmacro %}{{ m() | upper }} {{ m() ~ 'x' }} {{ m() is string }} {{ m() + 'y' }}", "A ax True ay"},
    {"{% macro m(x) %}{{ x }}{% endmacro %}{{ [1,2] | map('string') | join('-') }}{{ m }}", "1-2<Macro 'm'>"},
    {"{{ ''.join(['a','b']) }}{% set t = namespace(s='') %}{% for w in words %}{% set t.s = t.s ~ w %}{% endfor %}{{ t.s }}", "abbAca"},
    {"{% call raise_exception('x') %}{% endcall %}", kFails},
    {"{% set messages = messages[1:] %}{{ messages | length }}", "2"},
    {"{% autoescape false %}<{% endautoescape %}", "<"},
    {"{%- set loop_messages = messages -%}{%- for message in loop_messages -%}{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}A{%- else -%}B{%- endif -%}{%- endfor -%}", "AAA"},
    {"{% macro a() %}{{ caller is defined }}{% endmacro %}{{ a() }}{% call a() %}{% endcall %}", "FalseTrue"},
    {"{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d %H:%M:%S %A %B %j %p %I %y %-d %e %U %W %w %a %%') }}", "14 Nov 2026 2026-11-14 12:00:00 Saturday November 318 PM 12 26 14 14 45 45 6 Sat %"},
    {R"J({{ strftime_now is defined }} {% if strftime_now is defined %}{% set date_string = strftime_now("%d %B %Y") %}{% else %}x{% endif %}{{ date_string }})J", "True 14 November 2026"},
};
// clang-format on

TEST(Jinja, Statements) {
  check_cases(kStatementCases);
}

}  // namespace
}  // namespace reprise::protocol::jinja::test
