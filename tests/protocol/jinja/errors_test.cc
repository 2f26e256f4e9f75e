// Errors name their line and what is wrong.
#include <gtest/gtest.h>

#include "tests/protocol/jinja/render_cases.h"

namespace reprise::protocol::jinja::test {
namespace {

TEST(JinjaErrors, NameTheLine) {
  EXPECT_EQ(rendered("a\nb {{ x.y }}"), "error: line 2: 'x' is undefined");
  EXPECT_EQ(rendered_over(R"({"d":{}})", "{% if true %}\n\n{{ d.a.b }}{% endif %}"),
            "error: line 3: 'dict object' has no attribute 'a'");
  EXPECT_EQ(rendered("{% macro m() %}\n{{ 1 / 0 }}\n{% endmacro %}\n\n{{ m() }}"),
            "error: line 2: division by zero");
  EXPECT_EQ(rendered("{% macro m() %}\nx{% endmacro %}\n{{ m() + 1 }}"),
            "error: line 3: can only concatenate str (not \"int\") to str");
  EXPECT_EQ(rendered("\n\n{% endfor %}"), "error: line 3: Encountered unknown tag 'endfor'.");
  EXPECT_EQ(rendered("{{ 'a\nb' }}\n{{ 1 + }}"), "error: line 3: unexpected 'end of print statement'");
}

TEST(JinjaErrors, SayWhatIsWrong) {
  EXPECT_EQ(rendered("{% do x %}"), "error: line 1: Encountered unknown tag 'do'.");
  EXPECT_EQ(rendered("{% include 'a' %}"),
            "error: line 1: 'include' needs another template, and a chat template stands alone");
  EXPECT_EQ(rendered("{% if false %}{% include 'a' %}{% endif %}ok"), "ok");
  EXPECT_EQ(rendered("{{ [].append(1) }}"),
            "error: line 1: access to attribute 'append' of 'list' object is unsafe.");
  EXPECT_EQ(rendered("{{ ''.__class__.x }}"),
            "error: line 1: access to attribute '__class__' of 'str' object is unsafe.");
  EXPECT_EQ(rendered("{{ 'x' | nofilter }}"), "error: line 1: No filter named 'nofilter'.");
  EXPECT_EQ(rendered("{{ 'x' is notest }}"), "error: line 1: No test named 'notest'.");
  EXPECT_EQ(rendered("{{ nothing | tojson }}"),
            "error: line 1: Object of type Undefined is not JSON serializable: 'nothing' is undefined");
  EXPECT_EQ(rendered("{% if true %}"),
            "error: line 1: Unexpected end of template. Jinja was looking for the following tags: 'elif' or "
            "'else' or 'endif'.");
  EXPECT_EQ(rendered("{% for i in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}"),
            "error: line 1: 'break' outside loop");
  EXPECT_EQ(rendered("{{ strftime_now('%Q') }}"), "error: line 1: strftime_now does not know %Q");
  EXPECT_EQ(rendered("\xFF"), "error: the template is not valid UTF-8");
  EXPECT_EQ(rendered_over("[]", "{{ x }}"),
            "error: the context of a template must be an object, not an array");
}

TEST(JinjaErrors, IntegersStayWithin64Bits) {
  const std::string reason = "error: line 1: an integer does not fit 64 bits";
  for (const char* source :
       {"{{ 9223372036854775808 }}", "{{ 9223372036854775807 + 1 }}", "{{ -9223372036854775807 - 2 }}",
        "{{ 2 ** 63 }}", "{{ 10 ** 10 ** 10 }}", "{{ 4611686018427387904 * 2 }}", "{{ 1e19 | int }}",
        "{{ '99999999999999999999' | int }}", "{{ (-9223372036854775807 - 1) // -1 }}",
        "{{ -(-9223372036854775807 - 1) }}", "{{ (-9223372036854775807 - 1) | abs }}"}) {
    EXPECT_EQ(rendered(source), reason) << source;
  }
  EXPECT_EQ(rendered("{{ range(-9223372036854775807, 9223372036854775807, 9223372036854775807) | list }}"),
            "[-9223372036854775807, 0]");
  EXPECT_EQ(
      rendered("{{ range(9223372036854775807, -9223372036854775807, -9223372036854775807 - 1) | list }}"),
      "[9223372036854775807, -1]");
  EXPECT_EQ(rendered("{{ -9223372036854775807 - 1 }}"), "-9223372036854775808");
  EXPECT_EQ(rendered("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
}

TEST(JinjaErrors, RaiseExceptionIsToldApart) {
  const auto compiled = Template::compile("\n{{ raise_exception('roles must alternate') }}");
  ASSERT_TRUE(compiled.ok());
  const auto text = compiled->render(Json::object());
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().kind, TemplateError::Kind::kRaised);
  EXPECT_EQ(text.error().line, 2);
  EXPECT_EQ(text.error().reason, "roles must alternate");
  const auto broken = Template::compile("{% if %}");
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().kind, TemplateError::Kind::kSyntax);
}

}  // namespace
}  // namespace reprise::protocol::jinja::test
