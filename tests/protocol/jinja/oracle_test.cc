// Chat templates with conversations, compared with Jinja2's recorded output: those of tests/data/templates,
// and published ones.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/oracle_folder.h"
#include "tests/protocol/jinja/render_cases.h"

namespace reprise::protocol::jinja::test {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Expects Jinja2's output, or a failure where it failed, for every case of a folder.
void expect_answers_of_jinja2(const std::filesystem::path& folder) {
  RenderOptions options;
  options.now = std::chrono::sys_days(std::chrono::year(2026) / 11 / 14) + std::chrono::hours(12);
  std::size_t count = 0;
  for (const std::filesystem::path& path : reprise::test::files_in(folder, ".cases.json")) {
    const auto file = Json::parse(contents(path));
    ASSERT_TRUE(file.ok()) << path << ": " << file.error().message;
    const auto compiled = Template::compile(contents(folder / *file->find_string("template")));
    ASSERT_TRUE(compiled.ok()) << path << ": " << compiled.error().describe();
    for (const Json& each : *file->find_array("cases")) {
      ++count;
      const auto text = compiled->render(*each.find("context"), options);
      const std::string place = path.filename().string() + ", " + *each.find_string("case");
      if (const std::string* expected = each.find_string("output")) {
        EXPECT_EQ(text.ok() ? *text : text.error().describe(), *expected) << place;
      } else {
        EXPECT_FALSE(text.ok()) << place;
      }
    }
  }
  EXPECT_GE(count, 60u) << "too few cases in " << folder;
}

TEST(JinjaOracle, TemplatesOfTheProject) {
  expect_answers_of_jinja2(reprise::test::data_folder() / "templates");
}

TEST(JinjaOracle, PublishedTemplates) {
  const std::filesystem::path folder = reprise::test::oracle_folder() / "templates";
  SKIP_WITHOUT(folder);
  expect_answers_of_jinja2(folder);
}

}  // namespace
}  // namespace reprise::protocol::jinja::test
