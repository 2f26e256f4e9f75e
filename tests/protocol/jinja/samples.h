#pragma once
// A context with values of every kind, and a template that uses many features, for tests that run many
// templates on the context, or the template on many contexts.

#include <string_view>

namespace reprise::protocol::jinja::test {

// clang-format off
inline constexpr std::string_view kContext = R"J({
  "messages": [{"role": "system", "content": "Be terse."}, {"role": "user", "content": "Hi <b>there</b>"}, {"role": "assistant", "content": "Hello", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1, "y": [1.0, null, true]}}}]}],
  "tools": null,
  "add_generation_prompt": true,
  "bos_token": "<s>",
  "n": 7,
  "neg": -7,
  "f": 2.5,
  "s": "héllo wörld",
  "empty": "",
  "lst": [3, 1, 2],
  "words": ["b", "A", "c", "a"],
  "d": {"a": 1, "b": "two", "items": "shadow"},
  "nested": {"a": {"b": [{"c": "deep"}]}},
  "big": 1e+22,
  "one": 1.0,
  "t": true,
  "x": null,
  "u": "日本語",
  "people": [{"name": "Bo", "age": 3, "city": "Oslo"}, {"name": "al", "age": 1, "city": "Rome"}, {"name": "Cy", "age": 3, "city": "oslo"}]
})J";
// clang-format on

// clang-format off
inline constexpr std::string_view kTemplate = R"J({%- macro show(item, depth=0) -%}
  {%- if item is mapping -%}{%- for k, v in item.items() -%}{{ k }}={{ show(v, depth + 1) }};{%- endfor -%}
  {%- elif item is iterable and item is not string -%}[{%- for v in item -%}{{ show(v, depth + 1) }},{%- endfor -%}]
  {%- else -%}{{ item | tojson }}{%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(last='', count=0) -%}
{{ bos_token }}{% if tools %}{{ tools | map(attribute='function') | map(attribute='name') | join(', ') }}{% endif %}
{%- for message in messages if message.role != 'system' -%}
  {%- if loop.first and message['role'] != 'user' -%}{{ raise_exception('first must be user') }}{%- endif -%}
  {%- set content = message.content if message.content is string else '' -%}
  {{ '<|' ~ message.role ~ '|>' }}{{ (content.split('</think>') | last).lstrip('\n')[:40] }}
  {%- if message.tool_calls -%}{{ show(message.tool_calls) }}{%- endif -%}
  {%- set ns.count = ns.count + content | length -%}{%- set ns.last = loop.previtem.role if not loop.first -%}
  {%- if loop.index > 3 -%}{%- break -%}{%- endif -%}
{%- endfor -%}
{{ ns.count // 3 }}{{ '%05d' % ns.count }}{{ people | groupby('city') | length }}{{ s[::-1] }}{{ d | dictsort }}
{%- filter indent(2) -%}a{{ '\n' }}b{%- endfilter -%}{% call(x) show(d) %}{{ x }}{% endcall %})J";
// clang-format on

}  // namespace reprise::protocol::jinja::test
