// Grower of templates, over the variables of tests/protocol/jinja/samples.h.
#include "tests/fuzz/grower_parts.h"

namespace reprise::fuzz {
namespace {

constexpr int kMaxPartsDepth = 5;  // levels of mixed constructs; a single one may nest thousands of times

const char* small_value(Draws& draws) {
  return draws.pick({"s",
                     "lst",
                     "d",
                     "people",
                     "messages",
                     "n",
                     "words",
                     "nested",
                     "neg",
                     "f",
                     "empty",
                     "x",
                     "u",
                     "'ab'",
                     "7",
                     "[1, 2]",
                     "{'k': 1}",
                     "ns.a",
                     "ns.b",
                     "range(9)",
                     "none",
                     "true",
                     "undefined_name",
                     "loop.index",
                     "caller",
                     "ns",
                     "namespace(a=1)",
                     "m0('y')",
                     "-0.5"});
}

/// Returns a postfix operator or filter; some expand the value.
const char* postfix(Draws& draws) {
  return draws.pick({"|upper",
                     "|list",
                     "|string",
                     "|length",
                     "|join('-')",
                     "|map('upper')",
                     "|map(attribute='a')",
                     "|select",
                     "|reject('none')",
                     "|sort",
                     "|unique",
                     "|groupby('city')",
                     "|dictsort",
                     "|items",
                     "|reverse",
                     "|first",
                     "|last",
                     "|tojson",
                     "|tojson(indent=9)",
                     "|batch(1)",
                     "|slice(3)",
                     "|slice(100000)",
                     "|batch(9, 'z')",
                     "|indent(1000)",
                     "|indent(9, true)",
                     "|center(100000)",
                     "|replace('', 'xy')",
                     "|replace('a', 'aaaa')",
                     "|trim",
                     "|title",
                     "|escape",
                     "|forceescape",
                     "|urlencode",
                     "|wordcount",
                     "|truncate(9)",
                     "|default('d')",
                     "|d(s)",
                     "|int",
                     "|float",
                     "|round(3)",
                     "|abs",
                     "|sum",
                     "|sum(start=[])",
                     "|min",
                     "|max",
                     "|filesizeformat",
                     "|format(1)",
                     "|safe",
                     ".split('')",
                     ".split()",
                     ".split('a')",
                     ".splitlines()",
                     ".replace('', 'abcdef')",
                     ".ljust(100000)",
                     ".zfill(100000)",
                     ".expandtabs(100000)",
                     ".join(words)",
                     ".join(lst|map('string'))",
                     ".items()",
                     ".keys()",
                     ".get('a')",
                     ".a",
                     "['a']",
                     "[0]",
                     "[::-1]",
                     "[1:]",
                     "[-1]",
                     ".strip()",
                     ".partition('a')",
                     ".count('a')",
                     ".title()",
                     ".format(s)",
                     " * 1000",
                     " * 100000000",
                     " ~ s",
                     " + lst",
                     " + s",
                     " % 3",
                     " ** 9",
                     " // 2",
                     " == s",
                     " < n",
                     " in words",
                     " is string",
                     " is in lst",
                     " if t else s",
                     " or s",
                     " and lst",
                     " is sameas ns",
                     "|attr(long)",
                     "[long]",
                     "|map(attribute=long)|list",
                     "|selectattr(long)|list",
                     "|sort(attribute=long)",
                     "|groupby(long)",
                     ".get(long)",
                     " is filter",
                     " is in long",
                     " == long",
                     " < long",
                     ".find('b')",
                     ".isalnum()"});
}

std::string expression(Draws& draws, std::size_t bytes, int depth);

std::string wrapped(Draws& draws, std::size_t bytes, int depth) {
  struct Pair {
    const char *open, *close;
  };
  static constexpr Pair kPairs[] = {{"(", ")"},
                                    {"[", "]"},
                                    {"[1, ", ", s]"},
                                    {"{'a': ", "}"},
                                    {"m0(", ")"},
                                    {"(s ~ ", ")"},
                                    {"dict(a=", ")"},
                                    {"(not ", ")"},
                                    {"-", ""},
                                    {"not ", ""},
                                    {"(s if ", " else lst)"},
                                    {"lst[", "]"},
                                    {"'%s' % (", ")"},
                                    {"raise_exception(", ")"}};
  const Pair& pair = kPairs[draws.below(std::size(kPairs))];
  const bool few = draws.below(4) != 0;
  const std::size_t some = 1 + draws.below(250);
  const std::size_t levels = few ? some : bytes / 3 + 1;
  const std::string inner = expression(draws, bytes / 8, depth + 1);
  return times(pair.open, levels) + inner + times(pair.close, levels);
}

std::string expression(Draws& draws, std::size_t bytes, int depth) {
  if (bytes < 12 || depth > kMaxPartsDepth) {
    std::string text = small_value(draws);
    if (draws.one_in(2)) text += postfix(draws);
    return text;
  }
  switch (draws.below(6)) {
    case 0: {  // one filter or operator, repeated
      const std::string value = small_value(draws);
      const std::string link = postfix(draws);
      const bool few = draws.one_in(2);
      const std::size_t count = 1 + draws.below(12);
      return value + (few ? times(link, count) : filled(link, bytes));
    }
    case 1: {  // a chain of different ones
      std::string text = small_value(draws);
      const std::size_t links = 1 + draws.below(60);
      for (std::size_t i = 0; i < links; ++i) text += postfix(draws);
      return text;
    }
    case 2:
      return wrapped(draws, bytes, depth);
    case 3: {
      const std::string item = expression(draws, bytes / 16, depth + 1);
      const char* between = draws.pick({", ", " + ", " ~ ", " and ", " or ", " < ", " == ", " if s else "});
      const std::string chain = filled(item + between, bytes) + item;
      return between[0] == ',' ? "[" + chain + "]" : chain;
    }
    case 4: {
      const std::string values = expression(draws, bytes / 2, depth + 1);
      const std::string arguments = expression(draws, bytes / 2, depth + 1);
      const char* call = draws.pick({"|map('replace', ", "|join(", "|default(", "|format(",
                                     "|sum(start=", "|select('in', ", ".format(", ".split(", ".replace('a', ",
                                     "|batch(3, ", "|selectattr('a', 'eq', ", "|sort(attribute="});
      return "(" + values + ")" + call + arguments + ")";
    }
    default: {
      const std::string text = class_ranges(draws, bytes / 2);
      const std::string value = postfix(draws);
      return "'" + text + "'" + value;
    }
  }
}

std::string body(Draws& draws, std::size_t bytes, int depth);

/// Nests loops or other blocks, with `inner` in the innermost.
std::string nested_blocks(Draws& draws, std::size_t bytes, const std::string& inner) {
  struct Block {
    const char *open, *close;
  };
  static constexpr Block kBlocks[] = {
      {"{% for i in lst %}", "{% endfor %}"},
      {"{% for i in range(1000) %}", "{% endfor %}"},
      {"{% for i in people if i.age recursive %}{{ loop(lst) }}", "{% endfor %}"},
      {"{% for k, v in d.items() %}", "{% else %}e{% endfor %}"},
      {"{% if n %}", "{% endif %}"},
      {"{% if not n %}{% elif s %}", "{% else %}{% endif %}"},
      {"{% filter indent(9) %}", "{% endfilter %}"},
      {"{% filter upper|replace('A', 'AA') %}", "{% endfilter %}"},
      {"{% set y %}", "{{ y }}{% endset %}"},
      {"{% call m0('z') %}", "{% endcall %}"},
      {"{% with a = s %}", "{% endwith %}"},
      {"{% macro m1(a, b=1) %}", "{% endmacro %}{{ m1(1) }}"},
      {"{% generation %}", "{% endgeneration %}"},
  };
  const Block& block = kBlocks[draws.below(std::size(kBlocks))];
  const bool few = draws.below(4) != 0;
  const std::size_t some = 1 + draws.below(220);
  const std::size_t levels = few ? some : bytes / 32 + 1;
  return times(block.open, levels) + inner + times(block.close, levels);
}

/// Doubles a value in a loop or line by line: strings, lists, or lists of themselves.
std::string doubling(Draws& draws, std::size_t bytes) {
  const bool is_text = draws.one_in(3);
  const std::string step =
      is_text ? draws.pick({"{% set ns.a = ns.a ~ ns.a %}", "{% set ns.a = ns.a + ns.a %}",
                            "{% set ns.a = ns.a|replace('a', 'aa') %}",
                            "{% set ns.a = ns.a|string|tojson|tojson %}"})
              : draws.pick({"{% set ns.b = [ns.b, ns.b] %}", "{% set ns.b = {'k': ns.b, 'l': ns.b} %}",
                            "{% set ns.b = (ns.b, ns.b) %}", "{% set ns.b = ns.b + [ns.b] %}",
                            "{% set ns.b = [ns] %}", "{% set ns.b = ns.b|list|map('list') %}",
                            "{% set ns.b = [ns.b|tojson, ns.b|string] %}"});
  const std::string use =
      is_text
          ? draws.pick({"{{ ns.a|length }}", "{{ ns.a|upper|length }}", "{{ ns.a|int }}", "{{ {ns.a: 1} }}"})
          : draws.pick({"{{ ns.b }}", "{{ ns.b|tojson }}", "{{ ns.b == ns.b }}", "{{ ns.b|string|length }}",
                        "{{ [ns.b, ns.b]|sort }}", "{{ [ns.b, ns.b]|unique|list }}",
                        "{{ ns.b|sum(start=[]) }}", "{{ ns.b in [[ns.b]] }}", "{{ {ns.b: 1} }}",
                        "{{ d[ns.b] }}", "{{ ns.b < ns.b }}", "{{ ns.b is filter }}"});
  const std::size_t count = 1 + draws.below(1000);
  const bool in_loop = draws.one_in(2);
  const bool uses_each = draws.one_in(3);
  const std::string once = uses_each ? step + use : step;
  if (in_loop) return "{% for i in range(" + std::to_string(count) + ") %}" + once + "{% endfor %}" + use;
  return times(once, std::min(count, bytes / once.size() + 1)) + use;
}

/// Repeats one operation on a large value; each must be charged by the length of the value.
std::string large_value(Draws& draws) {
  const std::string piece =
      draws.pick({"'a'", "' '", "'1'", "'ab'", "lst", "people", "(1, 's')", "'\xC3\xA9'", "[long]"});
  const std::size_t magnitude = 10 + draws.below(13);
  const std::size_t count = std::size_t{1} << magnitude;
  const std::size_t rounds = std::size_t{1} << (34 - magnitude);  // exceeds the limits if it is charged
  const bool of_long = draws.one_in(3);
  const std::string subject = of_long ? small_value(draws) : "long";
  const std::string first = postfix(draws);
  const bool has_second = draws.one_in(4);
  const std::string second = has_second ? postfix(draws) : "";
  const bool keeps_all = draws.one_in(3);
  const std::string result = subject + first + second;
  return "{% set long = " + piece + " * " + std::to_string(count) + " %}{% for i in range(" +
         std::to_string(rounds) + ") %}{% set ns.b = " + (keeps_all ? "ns.b + [" + result + "]" : result) +
         " %}{% endfor %}{{ ns.b|length }}";
}

/// Macros that call the next one at least twice; the last may call the first.
std::string macro_chain(Draws& draws, std::size_t bytes) {
  const std::size_t count = 1 + draws.below(std::min<std::size_t>(bytes / 40 + 1, 3000));
  const std::size_t calls = 1 + draws.below(3);
  const bool is_circle = draws.one_in(3);
  const std::string argument = draws.pick({"a", "a ~ a", "[a, a]", "a + 1", "caller", ""});
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t next = i + 1 < count ? i + 1 : is_circle ? 0 : count;
    text += "{% macro c" + std::to_string(i) + "(a='q') %}";
    text += times("{{ c" + std::to_string(next) + "(" + argument + ") }}", calls) + "{% endmacro %}";
  }
  return text + "{% macro c" + std::to_string(count) + "(a) %}.{% endmacro %}{{ c0('w') }}";
}

std::string body(Draws& draws, std::size_t bytes, int depth) {
  if (bytes < 24 || depth > kMaxPartsDepth) {
    const std::string value = expression(draws, bytes, kMaxPartsDepth);
    return "{{ " + value + " }}";
  }
  switch (draws.below(11)) {
    case 0: {
      const std::string value = expression(draws, bytes, 0);
      return "{{ " + value + " }}";
    }
    case 1: {
      const std::string inner = body(draws, bytes / 4, depth + 1);
      return nested_blocks(draws, bytes, inner);
    }
    case 2:
    case 8:
      return doubling(draws, bytes);
    case 3:
      return macro_chain(draws, bytes);
    case 7:
    case 9:
      return large_value(draws);
    case 4: {
      const std::string piece = body(draws, bytes / 16, depth + 1);
      return filled(piece, bytes);
    }
    case 5: {
      const std::string piece =
          draws.pick({"{# c #}", "{% raw %}{{{% endraw %}", " \n", "{%- if n -%}a{%- endif -%}", "{{ '' }}",
                      "{{", "{% set a = n %}", "text ", "{%- break -%}", "{% set a, b = lst %}"});
      return filled(piece, bytes);
    }
    case 6: {
      const std::string value = expression(draws, bytes / 2, 0);
      const std::string inner = body(draws, bytes / 2, depth + 1);
      const char* open =
          draws.pick({"{% for i in ", "{% if ", "{% set a = ", "{% set ns.b = ", "{% set ns.a = "});
      const std::string end = open[3] == 'f' ? "{% endfor %}" : open[3] == 'i' ? "{% endif %}" : "";
      return open + value + " %}" + inner + end;
    }
    default: {
      const std::string first = body(draws, bytes / 2, depth + 1);
      const std::string second = body(draws, bytes / 2, depth + 1);
      return first + second;
    }
  }
}

}  // namespace

std::string grow_jinja(Draws& draws, std::size_t bytes) {
  std::string text =
      "{% set ns = namespace(a='a', b=[]) %}{% set long = 'abc' %}{% macro m0(a) %}{{ a }}{% endmacro %}";
  text += body(draws, bytes, 0);
  text.resize(std::min(text.size(), kMaxGrownBytes));
  return text;
}

}  // namespace reprise::fuzz
