// for loops and the loop variable. The expected values are those of Jinja2 3.1 configured as in transformers.
#include <gtest/gtest.h>

#include "tests/protocol/jinja/render_cases.h"

namespace reprise::protocol::jinja::test {
namespace {

// clang-format off
constexpr Case kLoopCases[] = {
    {"{% for i in lst %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }} {% endfor %}", "1/0/3/2/True/False/3 2/1/2/1/False/False/3 3/2/1/0/False/True/3 "},
    {"{% for k in d %}{{ k }};{% endfor %} {% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for c in 'añb' %}{{ c }}.{% endfor %}", "a;b;items; a=1;b=two;items=shadow; a.ñ.b."},
    {"{% for i in [] %}x{% else %}empty{% endfor %} {% for i in [1] if i > 5 %}x{% else %}filtered{% endfor %}", "empty filtered"},
    {"{% for i in range(10) if i is odd %}{{ loop.index }}:{{ i }}/{{ loop.length }} {% endfor %}", "1:1/5 2:3/5 3:5/5 4:7/5 5:9/5 "},
    {"{% for i in range(10) %}{% if i == 3 %}{% continue %}{% endif %}{% if i == 6 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01245"},
    {"{% for a, b in [(1,2),(3,4)] %}{{ a }}{{ b }} {% endfor %}{% for (a, b), c in [((1,2),3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "12 34 123"},
    {"{% for i in [1,2,3] %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}", "<1>2 1<2>3 2<3> "},
    {"{% for i in [1,1,2,2,3] %}{% if loop.changed(i) %}{{ i }}{% endif %}{% endfor %} {% for i in range(4) %}{{ loop.cycle('a','b','c') }}{% endfor %}", "123 abca"},
    {"{% for i in [1,2] %}{% for j in [1,2] %}{{ loop.index }}{{ loop.depth }}{% endfor %}{{ loop.index }}|{% endfor %}", "11211|11212|"},
    {"{% for item in [{'v':1,'c':[{'v':2,'c':[]},{'v':3,'c':[{'v':4,'c':[]}]}]}] recursive %}{{ loop.depth }}:{{ item.v }}{% if item.c %}({{ loop(item.c) }}){% endif %} {% endfor %}", "1:1(2:2 2:3(3:4 ) ) "},
    {"{% set x = 0 %}{% for i in [1,2,3] %}{{ x }}{% set x = i %}{{ x }} {% endfor %}{{ x }}", "01 02 03 0"},
    {"{% set ns = namespace(n=0, found=false) %}{% for i in lst %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }} {{ ns.found }}", "6 False"},
    {"{% set ns = namespace(stop=false) %}{% for i in range(5) if not ns.stop %}{{ i }}{% if i == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}", "012"},
    {"{% for m in messages %}{{ m.role }}{{ ', ' if not loop.last }}{% endfor %}", "system, user, assistant"},
    {"{% for m in messages[::-1] %}{% set i = (messages|length - 1) - loop.index0 %}{{ i }}{{ m.role }} {% endfor %}", "2assistant 1user 0system "},
    {"{% for i in [1,2,3] %}{% if loop.first %}[{% endif %}{{ i }}{% if loop.last %}]{% else %},{% endif %}{% endfor %}", "[1,2,3]"},
    {"{% for x in [1,2,3] | reverse %}{{ x }}{{ loop.revindex }}{{ loop.last }} {% endfor %}", "33False 22False 11True "},
    {"{% for i in range(3) %}{% set y %}{{ i }}-{% endset %}{{ y }}{% endfor %}{{ y }}", "0-1-2-"},
    {"{% for i in range(2) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}", "00 10 "},
    {"{% for k, v in d | dictsort %}{{ k }}{{ v }}{% endfor %} {% for k, v in d | items %}{{ k }}{% endfor %}", "a1btwoitemsshadow abitems"},
    {"{% for i in 'ab' %}{{ loop.index }}{{ i }}{{ loop.length }}{% endfor %}", "1a22b2"},
    {"{% for i in lst|sort %}{% if loop.index0 is even %}{{ i }}{% endif %}{% endfor %}", "13"},
    {"{% for i in [1,2] %}{% with z = i * 2 %}{{ z }}{% if z == 2 %}{% continue %}{% endif %}{% endwith %}!{% endfor %}", "24!"},
    {"{{ loop is defined }}{% for i in [1] %}{{ loop is defined }}{% endfor %}", "FalseTrue"},
    {"{% for x in [[1,2],[3]] %}{{ loop.index }}{% for y in x %}{{ loop.index }}{{ loop.last }}{% endfor %}{{ loop.last }}{% endfor %}", "11False2TrueFalse21TrueTrue"},
    {"{% for i in range(3) %}{{ i }}{% else %}never{% endfor %}", "012"},
    {"{% for i in range(5, 0, -2) %}{{ i }} {% endfor %}{% for i in range(2, 4) %}{{ i }} {% endfor %}", "5 3 1 2 3 "},
    {"{% for i in [3,2,1] if i != 2 %}{{ loop.nextitem }}{{ loop.last }}{{ loop.revindex }} {% endfor %}", "1False2 True1 "},
    {"{% for i in [1,2,3] %}{{ loop.foo }}|{% endfor %}", "|||"},
    {"{% for i in [1] %}{{ loop([2]) }}{% endfor %}", kFails},
    {"{% if true %}{% set a = 1 %}{% endif %}{{ a }}{% for i in [1] %}{% set a = 2 %}{% endfor %}{{ a }}", "11"},
    {"{% break %}", kFails},
    {"{% for i in [1,2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "12"},
    {"{% for a in [1,2] %}{% for b in [3,4] %}{{ a }}{{ b }}{% if b == 3 %}{% continue %}{% endif %}x{% endfor %}{% endfor %}", "1314x2324x"},
    {"{% for m in messages if m.role != 'system' %}{{ loop.index }}{{ m.role }}{{ loop.last }} {% endfor %}", "1userFalse 2assistantTrue "},
};
// clang-format on

TEST(Jinja, Loops) {
  check_cases(kLoopCases);
}

}  // namespace
}  // namespace reprise::protocol::jinja::test
