// Methods of strings, lists and dicts. The expected values are those of Jinja2 3.1 configured as in
// transformers.
#include <gtest/gtest.h>

#include "tests/protocol/jinja/render_cases.h"

namespace reprise::protocol::jinja::test {
namespace {

// clang-format off
constexpr Case kMethodCases[] = {
    {"{{ 'a,b,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'abc'.split('x') }} {{ ''.split() }} {{ ''.split(',') }} {{ ' a b  c'.split(none, 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ 'a,b'.split(sep=',') }} {{ 'a b c'.split(maxsplit=1) }}", "['a', 'b', 'c'] ['a', 'b'] ['a', 'b,c'] ['a,b', 'c'] ['abc'] [] [''] ['a', 'b  c'] [' a b', 'c'] ['a', 'b'] ['a', 'b c']"},
    {R"J({{ ' x '.strip() }}| {{ 'xxaxx'.strip('x') }} {{ 'xyax'.lstrip('xy') }} {{ 'axyx'.rstrip('xy') }} {{ '\n a \t'.strip() }}| {{ '  a'.lstrip() }} {{ 'a  '.rstrip() }}| {{ 'ééaé'.strip('é') }})J", "x| a ax a a| a a| a"},
    {"{{ 'abc'.startswith('a') }} {{ 'abc'.startswith(('x','a')) }} {{ 'abc'.endswith('bc') }} {{ 'abc'.endswith(('x',)) }} {{ 'abc'.startswith('b', 1) }} {{ 'abc'.endswith('b', 0, 2) }} {{ 'abc'.startswith('') }} {{ 'abc'.startswith(()) }}", "True True True False True True True False"},
    {R"J({{ 'aXa'.replace('a','b') }} {{ 'aaa'.replace('a','b',1) }} {{ 'abc'.upper() }} {{ 'ABC'.lower() }} {{ "they're bill's".title() }} {{ 'hELLO'.capitalize() }} {{ 'aBc'.swapcase() }} {{ 'AbC'.casefold() }})J", "bXb baa ABC abc They'Re Bill'S Hello AbC abc"},
    {"{{ 'hello'.find('l') }} {{ 'hello'.rfind('l') }} {{ 'hello'.find('z') }} {{ 'hello'.index('l') }} {{ 'hello'.count('l') }} {{ 'hello'.find('l', 3) }} {{ 'hello'.count('') }} {{ u.find('語') }} {{ 'aaa'.count('aa') }} {{ 'hello'.rindex('l') }} {{ 'hello'.find('h', -2) }} {{ 'héllo'.find('l') }}", "2 3 -1 2 2 3 6 2 1 3 -1 2"},
    {"{{ ', '.join(['a','b']) }} {{ ''.join('abc') }} {{ '-'.join(d) }} {{ '{} and {}'.format(1, 'x') }} {{ '{0}{1}{0}'.format('a','b') }} {{ '{x} {y:>4} {z:.2f}'.format(x=1, y=2, z=3.14159) }} {{ '{:05d} {:<5}| {:^5}| {:+} {:,} {:x} {:e} {:%}'.format(42, 'a', 'b', 3, 1234567, 255, 12345.6789, 0.25) }}", "a, b abc a-b-items 1 and x aba 1    2 3.14 00042 a    |   b  | +3 1,234,567 ff 1.234568e+04 25.000000%"},
    {"{{ '{{}} {!r} {!s}'.format('a', 'b') }} {{ '{0.a} {0[b]}'.format(d) }} {{ '{:*^9}'.format('mid') }} {{ '{:>{w}}'.format('x', w=4) }} {{ '{:b} {:o} {:#x} {:g}'.format(5, 8, 255, 0.0001) }} {{ '{}'.format([1,'a']) }} {{ '{:.3}'.format('abcdef') }} {{ '{:.3}'.format(3.14159) }} {{ '{}'.format(1.0) }} {{ '{:_}'.format(1234567) }}", "{} 'a' b 1 two ***mid***    x 101 10 0xff 0.0001 [1, 'a'] abc 3.14 1.0 1_234_567"},
    {R"J({{ 'a\nb\r\nc'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }} {{ ''.splitlines() }} {{ 'a\n\nb'.splitlines() }})J", R"J(['a', 'b', 'c'] ['a\n', 'b\n'] [] ['a', '', 'b'])J"},
    {R"J({{ '12'.isdigit() }} {{ 'a1'.isdigit() }} {{ ''.isdigit() }} {{ 'abc'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'abc'.islower() }} {{ 'ABC'.isupper() }} {{ 'Abc Def'.istitle() }} {{ '²'.isdigit() }} {{ '½'.isnumeric() }} {{ '١'.isdecimal() }} {{ 'é'.isalpha() }} {{ 'a_b'.isidentifier() }} {{ 'abc'.isascii() }} {{ 'é'.isascii() }} {{ 'a\n'.isprintable() }})J", "True False False True True True True True True True True True True True True False False"},
    {"{{ '42'.zfill(5) }} {{ '-42'.zfill(5) }} {{ 'ab'.ljust(4) }}| {{ 'ab'.rjust(4) }} {{ 'ab'.center(5) }}| {{ 'abc'.center(6) }}| {{ 'ab'.ljust(4, '*') }} {{ 'x'.center(4, '-') }}", "00042 -0042 ab  |   ab   ab |  abc  | ab** -x--"},
    {R"J({{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }} {{ 'abc'.removeprefix('z') }} {{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('-') }} {{ 'abc'.rpartition('-') }} {{ 'a\tb'.expandtabs(4) }})J", "x x abc ('a', '-', 'b-c') ('a-b', '-', 'c') ('abc', '', '') ('', '', 'abc') a   b"},
    {"{{ lst.index(1) }} {{ lst.count(3) }} {{ (1,2).index(2) }} {{ lst.copy() }} {{ d.copy() }} {{ d.get('a') }} {{ d.get('q', {}) }}", "1 1 1 [3, 1, 2] {'a': 1, 'b': 'two', 'items': 'shadow'} 1 {}"},
    {"{{ 'a'.split('') }}", kFails},
    {"{{ 'abc'.index('z') }}", kFails},
    {"{{ ','.join([1]) }}", kFails},
    {"{{ 'a'.foo() }}", kFails},
    {"{{ '{}'.format() }}", kFails},
    {"{{ '{x}'.format() }}", kFails},
    {"{{ 'a'.startswith(1) }}", kFails},
    {"{{ 'a'.replace('a') }}", kFails},
    {"{{ lst.index(99) }}", kFails},
    {"{{ [1].sort() }}", kFails},
    {"{{ 'a'.upper(1) }}", kFails},
    {"{{ '%d' % 'x' }}", kFails},
    {"{{ '%d %d' % (1,) }}", kFails},
    {"{{ '%d' % (1, 2) }}", kFails},
    {"{{ 'x' % 5 }}", kFails},
    {"{{ '{:d}'.format('x') }}", kFails},
    {R"J({{ (content | default('', true)).split('</think>')[-1].lstrip('\n') }}{{ '<think>a</think>\n\nb'.split('</think>')[-1].lstrip('\n') }} {{ '<think>a</think>b'.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }})J", "b a"},
    {"{{ 'a' in 'abc'.split('b') }} {{ 'abc'.split('b') | last }} {{ ('a' ~ 'b').upper() }} {{ ('x' * 3).replace('x', 'yy') }}", "True c AB yyyyyy"},
};
// clang-format on

TEST(Jinja, Methods) {
  check_cases(kMethodCases);
}

}  // namespace
}  // namespace reprise::protocol::jinja::test
