// Growers of regular expressions and GBNF.
#include <cmath>

#include "base/utf8.h"
#include "tests/fuzz/grower_parts.h"

namespace reprise::fuzz {
namespace {

constexpr int kMaxPartsDepth = 6;  // levels of mixed constructs; a single one may nest thousands of brackets

std::string small_regex(Draws& draws) {
  return draws.pick(
      {"a", "b?", "[a-f]", "\\d", ".", "(ab|c)", "x{2,3}", "\xC3\xA9", "\\w+", "[^\"]*", "(?:)"});
}

std::string regex_part(Draws& draws, std::size_t bytes, int depth);

std::string nested_brackets(Draws& draws, std::size_t bytes, int depth) {
  const bool few = draws.one_in(2);
  const std::size_t some = 1 + draws.below(300);
  const std::size_t levels = few ? some : bytes / 3 + 1;
  const std::string open = draws.pick({"(", "(?:", "(a|", "(b?"});
  const std::string close = draws.pick({")", ")*", "){2}", "|)", ")?", "){0,3}", ")+?"});
  const std::string inner = regex_part(draws, bytes / 8, depth + 1);
  return times(open, levels) + inner + times(close, levels);
}

std::string alternatives(Draws& draws, std::size_t bytes, std::size_t parts, int depth) {
  std::string chain = regex_part(draws, bytes / parts, depth + 1);
  while (chain.size() < bytes) {
    const std::string part = regex_part(draws, bytes / parts, depth + 1);
    chain += '|' + part;
  }
  return chain;
}

std::string quantified(Draws& draws, std::size_t bytes, std::size_t some) {
  const std::string inner = small_regex(draws);
  const std::string quantifier = draws.pick({"*", "+", "?", "{1}", "{0,2}", "{2}", "*?", "{3,}", "{0}"});
  const bool few = draws.one_in(2);
  return inner + filled(quantifier, few ? some : bytes);
}

/// Nests counted repetitions, whose counts multiply.
std::string counted(Draws& draws, std::size_t bytes, std::size_t levels, int depth) {
  std::string fan = regex_part(draws, bytes / 2, depth + 1);
  const std::string count =
      draws.pick({"{20000}", "{0,20000}", "{300}", "{2,9}", "{1000,}", "{1,1000000}", "*", "{0,3}"});
  for (std::size_t i = 0; i < levels; ++i) fan = "(" + fan + ")" + count;
  return fan;
}

std::string regex_part(Draws& draws, std::size_t bytes, int depth) {
  if (bytes < 8 || depth > kMaxPartsDepth) return small_regex(draws);
  const std::size_t some = 1 + draws.below(12);
  switch (draws.below(7)) {
    case 0: {
      const std::string piece = regex_part(draws, bytes / some / 2, depth + 1);
      return filled(piece, bytes);
    }
    case 1:
      return nested_brackets(draws, bytes, depth);
    case 2:
      return alternatives(draws, bytes, some, depth);
    case 3:
      return quantified(draws, bytes, some);
    case 4:
      return counted(draws, bytes, some, depth);
    case 5: {
      const std::string open = draws.one_in(3) ? "[^" : "[";
      const std::string ranges = class_ranges(draws, bytes);
      const std::string count = draws.pick({"", "*", "{20000}", "{30}"});
      return open + ranges + "]" + count;
    }
    default: {
      const std::string first = regex_part(draws, bytes / 2, depth + 1);
      const std::string between = draws.pick({".*", "(a|b)*a(a|b){12}", "^", "$", ""});
      const std::string second = regex_part(draws, bytes / 2, depth + 1);
      return first + between + second;
    }
  }
}

std::string gbnf_items(Draws& draws, std::size_t bytes) {
  switch (draws.below(4)) {
    case 0: {
      const std::string item = draws.pick(
          {"[a-z]* ", "\"ab\" ", "[^x]? ", ". ", "\"\" ", "(\"a\" | \"b\")* ", "root? ", "([a-z]+)+ "});
      return filled(item, bytes);
    }
    case 1: {
      const std::string item =
          draws.pick({"[a-y]* \"i\" | ", "\"a\" | ", "\"\" | ", "[a-c]{0,9} \"z\" | ", "\"a\" root | "});
      return filled(item, bytes) + "\"e\"";
    }
    case 2: {
      const std::size_t few = draws.below(400);
      const std::size_t levels = draws.one_in(4) ? bytes / 2 : few;
      const std::string open = draws.pick({"(", "( \"q\" | ", "( [a-z]* "});
      const std::string close = draws.pick({")", ")*", ")?", "){0,9}", " | \"y\")", ")+ "});
      return times(open, levels) + "\"x\"" + times(close, levels);
    }
    default: {
      const std::string ranges = class_ranges(draws, bytes);
      return "[" + ranges + "]{1000}";
    }
  }
}

/// Returns the right side of a rule that refers to `next` and perhaps to `other`.
std::string gbnf_rule(Draws& draws, const std::string& next, const std::string& other, std::size_t bytes,
                      bool is_one_of_many) {
  switch (is_one_of_many ? draws.below(6) : draws.below(7)) {
    case 0:
      return next;
    case 1:
      return filled(next + " ", 10 * next.size()) + "\"\"";
    case 2: {
      const std::string before = draws.pick({"*", "", "{0,1000000}", "{3}"});
      const std::string after = draws.pick({"", "?", "*", "{2,5}", "{100000}"});
      return "[a-z]" + before + " (" + next + " | \"q\" " + next + ")" + after;
    }
    case 3:
      return "\"a\" " + next + " | \"b\" " + other + " | \"c\"";
    case 4: {
      const std::string count = draws.pick({"", "{1000000}", "*"});
      return "\"\"" + count + " " + next;
    }
    case 5: {  // left recursion, possibly through several rules
      const std::string count = draws.pick({"", "?", "*"});
      return other + count + " " + next + " | " + next;
    }
    default:
      return gbnf_items(draws, bytes);
  }
}

}  // namespace

std::size_t grown_size(Draws& draws) {
  const double share = static_cast<double>(draws.below(65'536)) / 65'536;
  return static_cast<std::size_t>(100 * std::pow(static_cast<double>(kMaxGrownBytes) / 100, share));
}

std::string class_ranges(Draws& draws, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) {
    const auto low = static_cast<char32_t>(0x100 + draws.below(0xD000));
    append_utf8(text, low);
    if (draws.one_in(2)) {
      const auto width = static_cast<char32_t>(draws.below(4));
      text += '-';
      append_utf8(text, low + width);
    }
  }
  return text;
}

std::string grow_regex(Draws& draws, std::size_t bytes) {
  std::string text = regex_part(draws, bytes, 0);
  text.resize(std::min(text.size(), kMaxGrownBytes));
  return text;
}

std::string grow_gbnf(Draws& draws, std::size_t bytes) {
  const bool many = draws.one_in(2);
  const std::size_t rules = many ? 1 + draws.below(bytes / 12 + 1) : 1 + draws.below(4);
  std::string text = "root ::= r0\n";
  for (std::size_t i = 0; i < rules && text.size() < kMaxGrownBytes; ++i) {
    const std::string next = i + 1 < rules ? "r" + std::to_string(i + 1) : "\"z\"";
    const std::string other = "r" + std::to_string(draws.below(rules));
    const std::string rule = gbnf_rule(draws, next, other, bytes, rules > 50);
    text += "r" + std::to_string(i) + " ::= " + rule + '\n';
  }
  text.resize(std::min(text.size(), kMaxGrownBytes));
  return text;
}

}  // namespace reprise::fuzz
