// White space around tags. The expected values are those of Jinja2 3.1 configured as in transformers.
#include <gtest/gtest.h>

#include "tests/protocol/jinja/render_cases.h"

namespace reprise::protocol::jinja::test {
namespace {

// clang-format off
constexpr Case kWhitespaceCases[] = {
    {R"J(a
{% if true %}
b
{% endif %}
c)J", R"J(a
b
c)J"},
    {"a {%- if true -%} b {%- endif -%} c", "abc"},
    {R"J(  {% if true %}x{% endif %}  
y)J", R"J(x  
y)J"},
    {R"J(  {%+ if true %}x{% endif +%}
y)J", R"J(  x
y)J"},
    {R"J({{ 'a' }}
{{ 'b' }})J", R"J(a
b)J"},
    {"  {{- 'a' -}}  b", "ab"},
    {R"J({# comment #}
after)J", "after"},
    {"x {#- c -#} y", "xy"},
    {R"J(  {# lstripped #}
z)J", "z"},
    {"{% raw %}{{ not evaluated }}{% endraw %}", "{{ not evaluated }}"},
    {R"J({% raw %}
  {{ x }}
  {% endraw %}
y)J", "\n  {{ x }}\ny"},
    {"a {%- raw -%}  b  {%- endraw -%} c", "abc"},
    {"{% set x = 1 %}\n\n{{ x }}\n", "\n1"},
    {R"J({% for i in [1,2] %}
  {{ i }}
{% endfor %})J", "  1\n  2\n"},
    {R"J({% for i in [1,2] -%}
  {{ i }}
{%- endfor %})J", "12"},
    {"line\t{% if true %}tab{% endif %}", "line\ttab"},
    {R"J({%- if true %}

  two
{%- endif %}

end)J", "\n  two\nend"},
    {R"J({{ '{{' }} {{ '%}' }} {{ "#}" }})J", "{{ %} #}"},
    {"{{ {'a': {'b': 1}}['a']['b'] }}", "1"},
    {"a{{ ' ' -}}   b", "a b"},
    {R"J( {%- set x = 'v' -%}
 {{- x -}}
 !)J", "v!"},
    {R"J(x
{%- if false %}n{% else %}
m
{% endif %}
k)J", R"J(xm
k)J"},
    {"{%-if true-%}tight{%-endif-%}", "tight"},
    {"text with { braces } and {single", "text with { braces } and {single"},
    {"{{-1}}", "1"},
    {"{{ 1 -}}  {{- 2 }}", "12"},
    {R"J(a{# multi
line #}b)J", "ab"},
    {R"J({#- -#}
q)J", "q"},
    {R"J(    {% if true %}
    indented
    {% endif %})J", "    indented\n"},
    {"x   {% if true %}y{% endif %}\n", "x   y"},
    {"a\r\n{% if true %}\r\nb\r\n{% endif %}\r\nc\r\n", R"J(a
b
c)J"},
    {"trailing\n", "trailing"},
    {"trailing\n\n", "trailing\n"},
    {"\n\nx", "\n\nx"},
    {"{% if true %}\n\n\ny{% endif %}\n\n", "\n\ny"},
    {"{{ 'x' }}\n", "x"},
    {"a\rb", R"J(a
b)J"},
    {"{% if true %}x{% endif %}\n{% if true %}y{% endif %}\n", "xy"},
    {"\u00a0{% if true %}x{% endif %}", "x"},
    {"{% set x = 'a\r\nb' %}{{ x|length }}", "3"},
    {"", ""},
    {" ", " "},
    {R"J({%- if true -%}

  a  

{%- endif -%}  b)J", "ab"},
    {R"J(x
  {%- if true %}
 y {% endif -%}  
 z)J", "x y z"},
    {R"J({% raw %}
a{% endraw %}
b)J", "\nab"},
    {R"J(  {% raw %}  a  {% endraw %}  
b)J", R"J(  a    
b)J"},
    {R"J(a
  {% raw -%}  b
 {%- endraw %}
c)J", R"J(a
bc)J"},
    {"a\n \t {# c #}\nb", R"J(a
b)J"},
    {R"J(a
  {#- c #}
b)J", "ab"},
    {R"J(a {# c +#}
b)J", R"J(a 
b)J"},
    {R"J({{ 1 }}
  {% set a = 1 %}
  {{ a }})J", R"J(1
  1)J"},
};
// clang-format on

TEST(Jinja, Whitespace) {
  check_cases(kWhitespaceCases);
}

}  // namespace
}  // namespace reprise::protocol::jinja::test
