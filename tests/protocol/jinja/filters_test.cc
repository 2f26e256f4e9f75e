// Filters. The expected values are those of Jinja2 3.1 configured as in transformers.
#include <gtest/gtest.h>

#include "tests/protocol/jinja/render_cases.h"

namespace reprise::protocol::jinja::test {
namespace {

// clang-format off
constexpr Case kFilterCases[] = {
    {"{{ '  a b ' | trim }}| {{ 'xxaxx' | trim('x') }} {{ 'abc' | upper }} {{ 'ABC' | lower }} {{ 'hello WORLD' | capitalize }} {{ 'hello wORLD foo-bar (baz)' | title }} {{ 'hello' | length }} {{ [1,2] | count }}", "a b| a ABC abc Hello world Hello World Foo-Bar (Baz) 5 2"},
    {"{{ [1,2,3] | join }} {{ [1,2,3] | join(', ') }} {{ people | join('-', attribute='name') }} {{ 'abc' | join('.') }} {{ ['a', none, 1.0] | join('|') }} {{ [1,2]|join(3) }}", "123 1, 2, 3 Bo-al-Cy a.b.c a|None|1.0 132"},
    {"{{ 'abc' | list }} {{ d | list }} {{ (1,2) | list }} {{ lst | first }} {{ lst | last }} {{ 'abc' | first }} {{ 'abc' | last }} {{ [] | first }}| {{ [] | last }}| {{ d | first }} {{ d | last }}", "['a', 'b', 'c'] ['a', 'b', 'items'] [1, 2] 3 2 a c | | a items"},
    {"{{ lst | sort }} {{ lst | sort(reverse=true) }} {{ words | sort }} {{ words | sort(case_sensitive=true) }} {{ people | sort(attribute='age') | map(attribute='name') | list }} {{ people | sort(attribute='age,name') | map(attribute='name') | list }} {{ people|sort(attribute='name', reverse=true)|map(attribute='name')|join }}", "[1, 2, 3] [3, 2, 1] ['A', 'a', 'b', 'c'] ['A', 'a', 'b', 'c'] ['al', 'Bo', 'Cy'] ['al', 'Bo', 'Cy'] CyBoal"},
    {"{{ lst | min }} {{ lst | max }} {{ words | min }} {{ words | max }} {{ words | max(case_sensitive=true) }} {{ people | max(attribute='age') }} {{ [] | max }}| {{ lst | sum }} {{ people | sum(attribute='age') }} {{ [1.5, 2] | sum }} {{ [1]|sum(start=10) }} {{ [] | sum }}", "1 3 A c c {'name': 'Bo', 'age': 3, 'city': 'Oslo'} | 6 7 3.5 11 0"},
    {"{{ lst | reverse | list }} {{ 'abc' | reverse }} {{ [1,1,2] | unique | list }} {{ ['a','A','b'] | unique | list }} {{ ['a','A'] | unique(case_sensitive=true) | list }} {{ people | unique(attribute='city') | map(attribute='name') | list }}", "[2, 1, 3] cba [1, 2] ['a', 'b'] ['a', 'A'] ['Bo', 'al']"},
    {"{% for g in people | groupby('city') %}{{ g.grouper }}:{{ g.list | map(attribute='name') | join(',') }};{% endfor %}{% for k, v in people | groupby('age') %}{{ k }}={{ v | length }} {% endfor %}{{ people | groupby('age') | length }}", "Oslo:Bo,Cy;Rome:al;1=1 3=2 2"},
    {"{{ d | dictsort }} {{ {'b':1,'A':2} | dictsort }} {{ {'b':1,'a':2} | dictsort(by='value') }} {{ {'b':1,'a':2} | dictsort(reverse=true) }} {{ {'b':1,'A':2} | dictsort(true) }} {{ d | items | list }}", "[('a', 1), ('b', 'two'), ('items', 'shadow')] [('A', 2), ('b', 1)] [('b', 1), ('a', 2)] [('b', 1), ('a', 2)] [('A', 2), ('b', 1)] [('a', 1), ('b', 'two'), ('items', 'shadow')]"},
    {"{{ '42' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ '3.7' | int }} {{ 3.9 | int }} {{ '0x1f' | int(base=16) }} {{ none | int }} {{ true | int }} {{ '1_000' | int }} {{ ' 12 ' | int }} {{ -3.9 | int }} {{ '101' | int(base=2) }}", "42 0 5 3 3 31 0 1 1000 12 -3 5"},
    {"{{ '3.5' | float }} {{ 'x' | float }} {{ 3 | float }} {{ '1e3' | float }} {{ 'inf' | float }} {{ none | float }} {{ 'x'|float(1.5) }} {{ '-2.5' | float }}", "3.5 0.0 3.0 1000.0 inf 0.0 1.5 -2.5"},
    {"{{ 42.55 | round }} {{ 42.55 | round(1) }} {{ 2.5 | round }} {{ 3.5 | round }} {{ 42.55 | round(1, 'floor') }} {{ 42.51 | round(1, 'ceil') }} {{ 7 | round }} {{ 1234 | round(-2) }} {{ 2.675 | round(2) }} {{ 0.5 | round | int }} {{ 1e10|round(2) }}", "43.0 42.5 2.0 4.0 42.5 42.6 7 1200 2.67 0 10000000000.0"},
    {"{{ -5 | abs }} {{ (-5) | abs }} {{ -2.5 | abs }} {{ true | abs }}", "5 5 2.5 1"},
    {"{{ 'aXbXc' | replace('X', '-') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 'abc' | replace('', '.') }} {{ 123 | replace(2, 'x') }}", "a-b-c bba .a.b.c. 1x3"},
    {R"J({{ 'a\nb\n\nc' | indent }} | {{ 'a\nb' | indent(2, true) }} | {{ 'a\n\nb' | indent(2, blank=true) }} | {{ 'a\nb' | indent('> ') }} | {{ 'a\nb' | indent(width=1, first=true) }}|{{ 'a\n'|indent }}|)J", R"J(a
    b

    c |   a
  b | a
  
  b | a
> b |  a
 b|a
|)J"},
    {R"J({{ '<a href="x">' | e }} {{ '<a>' | escape }} {{ ('<a>' | safe) }} {{ ('<a>' | e | e) }} {{ ('<a>' | e | forceescape) }} {{ "it's & co" | e }} {{ ('<' | safe) + '<' }} {{ '<' + ('<' | safe) }} {{ ('<'|safe) ~ '<' }})J", "&lt;a href=&#34;x&#34;&gt; &lt;a&gt; <a> &lt;a&gt; &amp;lt;a&amp;gt; it&#39;s &amp; co <&lt; &lt;< <<"},
    {"{{ [1,2,3,4,5] | batch(2) | list }} {{ [1,2,3] | batch(2, 'x') | list }} {{ [1,2,3,4,5] | slice(2) | list }} {{ [1,2,3] | slice(2, 'f') | list }}", "[[1, 2], [3, 4], [5]] [[1, 2], [3, 'x']] [[1, 2, 3], [4, 5]] [[1, 2], [3, 'f']]"},
    {"{{ 'one two  three-four' | wordcount }} {{ 'a long sentence that needs cutting' | truncate(15) }} {{ 'a long sentence that needs cutting' | truncate(15, true) }} {{ 'a long sentence that needs cutting' | truncate(15, false, '..', 0) }} {{ 'short' | truncate(10) }}", "4 a long... a long sente... a long.. short"},
    {"{{ 'x' | center(5) }}| {{ 'ab' | center(5) }}| {{ 'abc' | center(6) }}| {{ '%s=%d' | format('a', 1) }} {{ '%(x)s' | format(x=1) }}", "  x  |   ab |  abc  | a=1 1"},
    {"{{ 'a b/c?é' | urlencode }} {{ {'a': 1, 'b c': 'd&e'} | urlencode }} {{ 1000000 | filesizeformat }} {{ 1024 | filesizeformat(true) }} {{ 1 | filesizeformat }} {{ 500|filesizeformat }}", "a%20b/c%3F%C3%A9 a=1&b+c=d%26e 1.0 MB 1.0 KiB 1 Byte 500 Bytes"},
    {"{{ 5 | string }} {{ none | string }} {{ [1] | string }} {{ 'a' | string }} {{ 1.0 | string ~ '!' }}", "5 None [1] a 1.0!"},
    {"{{ ['a','b'] | map('upper') | list }} {{ people | map(attribute='name') | list }} {{ people | map(attribute='zip', default='?') | list }} {{ [[1,2],[3,4]] | map('first') | list }} {{ [[1,2],[3]] | map(attribute=0) | list }} {{ ['a'] | map('replace', 'a', 'b') | list }} {{ [' a '] | map('trim') | list }} {{ [{'a':{'b':1}}]|map(attribute='a.b')|list }}", "['A', 'B'] ['Bo', 'al', 'Cy'] ['?', '?', '?'] [1, 3] [1, 3] ['b'] ['a'] [1]"},
    {R"J({{ d | tojson }} {{ lst | tojson }} {{ 'é"\n<>' | tojson }} {{ none | tojson }} {{ 1.0 | tojson }} {{ true | tojson }} {{ (1,2) | tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }})J", R"J({"a": 1, "b": "two", "items": "shadow"} [3, 1, 2] "é\"\n<>" null 1.0 true [1, 2] {"1": 4, "null": 3, "1.5": 5})J"},
    {"{{ d | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ {} | tojson(indent=4) }} {{ {'b': 1, 'a': [1, {}]} | tojson(indent=2, sort_keys=true) }} {{ {'a': 1} | tojson(separators=(',', ':')) }} {{ 'é' | tojson(ensure_ascii=true) }} {{ [1,2] | tojson(indent='--') }} {{ [1] | tojson(indent=0) }}", R"J({
  "a": 1,
  "b": "two",
  "items": "shadow"
} [] {} {
  "a": [
    1,
    {}
  ],
  "b": 1
} {"a":1} "\u00e9" [
--1,
--2
] [
1
])J"},
    {"{{ messages[2].tool_calls | tojson }} {{ messages[2].tool_calls[0].function.arguments | tojson(indent=4) }}", R"J([{"function": {"name": "f", "arguments": {"x": 1, "y": [1.0, null, true]}}}] {
    "x": 1,
    "y": [
        1.0,
        null,
        true
    ]
})J"},
    {"{{ lst | length == 3 }} {{ 'a' if lst | length > 2 else 'b' }} {{ lst | first + 1 }} {{ -lst | first }}", kFails},
    {"{{ lst | sort | first }} {{ 'a,b' | replace(',', ';') | upper }} {{ messages | map(attribute='role') | unique | sort | join(',') }}", "1 A;B assistant,system,user"},
    {"{{ 1 | upper }} {{ none | upper }} {{ 1.0 | trim }} {{ [1] | upper }}", "1 NONE 1.0 [1]"},
    {"{{ [1, 'a'] | sort }}", kFails},
    {"{{ 5 | list }}", kFails},
    {"{{ 5 | join }}", kFails},
    {"{{ lst | map('nofilter') | list }}", kFails},
    {"{{ 'abc' | indent(-1) }}", "abc"},
    {"{{ lst | batch }}", kFails},
    {"{{ range | tojson }}", kFails},
    {"{{ 'a' | round }}", kFails},
    {"{{ 'a' | abs }}", kFails},
    {"{{ lst | first(1) }}", kFails},
    {"{{ (lst|map('string'))|length }}", kFails},
    {"{% set g = lst|map('string') %}{{ g|list }}{{ g|list }}{{ 'yes' if g }}", "['3', '1', '2'][]yes"},
    {"{{ 'ß' | upper }} {{ 'ÀÉ' | lower }} {{ 'éa' | capitalize }} {{ 'straße' | title }}", "SS àé Éa Straße"},
};
// clang-format on

TEST(Jinja, Filters) {
  check_cases(kFilterCases);
}

}  // namespace
}  // namespace reprise::protocol::jinja::test
