// Broken and strange templates over broken and strange contexts: whatever comes, an answer or an error.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "tests/protocol/jinja/render_cases.h"

namespace reprise::protocol::jinja::test {
namespace {

// clang-format off
constexpr std::array kPieces = {
    "{{ ", " }}", "{% ", " %}", "{%- ", " -%}", "{# ", " #}", "if ", "elif ", "else", "endif", "for x in ",
    "endfor", "set x = ", "set ns.a = ", "endset", "macro m(a, b=1)", "endmacro", "call m()", "endcall",
    "filter upper", "endfilter", "with a = ", "endwith", "break", "continue", "generation", "endgeneration",
    "raw", "endraw", " recursive", "x", "ns", "namespace(a=1)", "loop", "loop.", "messages", "tools",
    "nothing", ".role", ".content", "['role']", "[0]", "[-1]", "[::-1]", "[1:", "]", "(", ")", "[", "{",
    "}", ",", ":", "'a'", "'", "\"b\"", "\\", "1", "-7", "2.5", "10**9", "9223372036854775807", "true",
    "none", " + ", " - ", " * ", " / ", " // ", " % ", " ** ", " ~ ", " == ", " < ", " in ", " not in ",
    " is ", " is not ", " and ", " or ", " not ", " if ", " else ", "|tojson", "|tojson(indent=2)",
    "|length", "|list", "|join(',')", "|map(attribute='role')", "|map('upper')",
    "|selectattr('role','equalto','user')", "|sort", "|unique", "|groupby('role')", "|batch(2)",
    "|slice(3)", "|dictsort", "|items", "|first", "|last", "|reverse", "|indent", "|truncate(5)",
    "|replace('a','b')", "|int", "|float", "|round", "|abs", "|sum", "|min", "|max", "|default('d')",
    "|trim", "|title", "|e", "|safe", "|format(1)", "|center(9)", "|wordcount", "|urlencode", ".split('a')",
    ".strip()", ".format(1)", ".items()", ".get('a')", ".append(1)", ".join(x)", ".startswith(('a',))",
    ".zfill(3)", "range(3)", "range(", "dict(a=1)", "cycler(1,2)", "joiner()", "raise_exception('r')",
    "strftime_now('%Y')", "caller()", "varargs", "kwargs", "m(1)", "m", "*x", "**x", "defined", "string",
    "odd", "mapping", "é", "\xF0\x9F\x98\x80", "\n", "  ", "\r\n", "\xFF",
};
// clang-format on

RenderOptions small_limits() {
  RenderOptions options;
  options.limits.steps = 20'000;
  options.limits.output_bytes = 1u << 16;
  options.limits.text_bytes = 1u << 16;
  options.limits.items = 2'000;
  options.limits.memory_bytes = 1u << 22;
  return options;
}

// Renders, if it can be compiled, and says whether it could.
bool survives(const std::string& source, const Json& context) {
  const auto compiled = Template::compile(source);
  if (!compiled.ok()) {
    EXPECT_FALSE(compiled.error().reason.empty()) << source;
    return false;
  }
  const auto text = compiled->render(context, small_limits());
  EXPECT_TRUE(text.ok() || !text.error().reason.empty()) << source;
  return true;
}

TEST(JinjaFuzz, RowsOfPieces) {
  const auto context = Json::parse(kContext);
  std::mt19937 random(20261114);
  std::size_t compiled = 0;
  for (int round = 0; round < 30'000; ++round) {
    std::string source;
    const std::size_t length = 1 + random() % 14;
    const bool in_tag = random() % 4 != 0;
    if (in_tag) source += "{{ ";
    for (std::size_t i = 0; i < length; ++i) source += kPieces[random() % kPieces.size()];
    if (in_tag) source += " }}";
    compiled += survives(source, *context);
  }
  EXPECT_GT(compiled, 500u);  // else this tests the parser alone
}

TEST(JinjaFuzz, DamagedTemplates) {
  const auto context = Json::parse(kContext);
  const std::string original(kTemplate);
  std::mt19937 random(7);
  std::size_t compiled = 0;
  for (int round = 0; round < 6'000; ++round) {
    std::string source = original;
    for (std::size_t i = 0, count = 1 + random() % 4; i < count; ++i) {
      const std::size_t at = random() % source.size();
      switch (random() % 5) {
        case 0:
          source[at] = static_cast<char>(random());
          break;
        case 1:
          source.erase(at, 1 + random() % 20);
          break;
        case 2:
          source.insert(at, kPieces[random() % kPieces.size()]);
          break;
        case 3: {
          const std::size_t from = random() % source.size();
          source.insert(at, source.substr(from, random() % 60));
          break;
        }
        default:
          source.resize(std::max<std::size_t>(at, 1));
      }
      if (source.empty()) source.assign(1, 'x');
    }
    compiled += survives(source, *context);
  }
  EXPECT_GT(compiled, 100u);
}

TEST(JinjaFuzz, DamagedContexts) {
  const auto compiled = Template::compile(kTemplate);
  ASSERT_TRUE(compiled.ok()) << compiled.error().describe();
  const std::string original(kContext);
  std::mt19937 random(11);
  constexpr std::array kValues = {"null", "true", "1",     "-2.5",         "\"s\"",
                                  "[]",   "{}",   "[[1]]", "{\"role\":1}", "1e300"};
  std::size_t parsed = 0;
  for (int round = 0; round < 6'000; ++round) {
    std::string text = original;
    for (std::size_t i = 0, count = 1 + random() % 3; i < count; ++i) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0) {
        text[at] = static_cast<char>(random() % 256);
      } else {  // another value behind a colon
        const std::size_t colon = text.find(": ", at);
        if (colon == text.npos) continue;
        const std::size_t end = text.find_first_of(",}]\n", colon);
        text.replace(colon + 2, end - colon - 2, kValues[random() % kValues.size()]);
      }
    }
    const auto context = Json::parse(text);
    if (!context.ok()) {
      EXPECT_FALSE(context.error().message.empty());
      continue;
    }
    ++parsed;
    const auto result = compiled->render(*context, small_limits());
    EXPECT_TRUE(result.ok() || !result.error().reason.empty());
  }
  EXPECT_GT(parsed, 1000u);
}

}  // namespace
}  // namespace reprise::protocol::jinja::test
