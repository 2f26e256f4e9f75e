#include "base/build_id.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/require.h"

namespace reprise {
namespace {

TEST(BuildId, IsThatOfThisProgram) {
  const std::string& id = build_id();
  ASSERT_GE(id.size(), 16u) << id;
  EXPECT_EQ(&id, &build_id()) << "found once";
  if (id.starts_with("code-")) REPRISE_SKIP_WITHOUT("build-id", "the linker gave no id: " + id);
  // Compares with readelf, if installed.
  std::FILE* out = popen("readelf -n \"$(readlink /proc/$PPID/exe)\" 2>/dev/null", "r");
  ASSERT_NE(out, nullptr);
  std::string text;
  char buffer[256];
  while (std::fgets(buffer, sizeof buffer, out) != nullptr) text += buffer;
  pclose(out);
  if (text.empty()) REPRISE_SKIP_WITHOUT("readelf", "no readelf in PATH");
  EXPECT_NE(text.find(id), std::string::npos) << text;
}

}  // namespace
}  // namespace reprise
