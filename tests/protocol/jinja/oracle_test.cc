// Published chat templates over conversations, rendered by Jinja2 beforehand.
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

TEST(JinjaOracle, PublishedTemplates) {
  const std::filesystem::path folder = reprise::test::oracle_folder() / "templates";
  SKIP_WITHOUT(folder);
  RenderOptions options;
  options.now = std::chrono::sys_days(std::chrono::year(2026) / 11 / 14) + std::chrono::hours(12);
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().string().ends_with(".cases.json")) continue;
    const auto file = Json::parse(contents(entry.path()));
    ASSERT_TRUE(file.ok()) << entry.path() << ": " << file.error().message;
    const auto compiled = Template::compile(contents(folder / *file->find_string("template")));
    ASSERT_TRUE(compiled.ok()) << entry.path() << ": " << compiled.error().describe();
    for (const Json& each : *file->find_array("cases")) {
      ++count;
      const auto text = compiled->render(*each.find("context"), options);
      const std::string place = entry.path().filename().string() + ", " + *each.find_string("case");
      if (const std::string* expected = each.find_string("output")) {
        EXPECT_EQ(text.ok() ? *text : text.error().describe(), *expected) << place;
      } else {
        EXPECT_FALSE(text.ok()) << place;
      }
    }
  }
  EXPECT_GT(count, 0u) << "no cases in " << folder;
}

}  // namespace
}  // namespace reprise::protocol::jinja::test
