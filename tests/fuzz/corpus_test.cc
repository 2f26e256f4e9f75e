// Every input that is kept, through its target: what was once found stays found, in every build.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/targets.h"
#include "tests/source_folder.h"

namespace reprise::fuzz {
namespace {

namespace fs = std::filesystem;

fs::path corpus_folder() {
  return source_folder() / "tests" / "fuzz" / "corpus";
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class FuzzCorpus : public testing::TestWithParam<Target> {};

TEST_P(FuzzCorpus, EveryInputIsTakenOrRefused) {
  const Target& target = GetParam();
  target.run("");
  std::size_t inputs = 0;
  for (const auto& entry : fs::directory_iterator(corpus_folder() / target.name)) {
    SCOPED_TRACE(entry.path().string());
    // A CHECK ends the program, so the input is named before.
    RecordProperty("input", entry.path().string());
    ASSERT_NO_THROW(target.run(bytes_of(entry.path()))) << entry.path();
    ++inputs;
  }
  EXPECT_GT(inputs, 0u);
}

INSTANTIATE_TEST_SUITE_P(, FuzzCorpus, testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FuzzTargets, EveryCorpusHasATarget) {
  for (const auto& entry : fs::directory_iterator(corpus_folder())) {
    EXPECT_NE(find_target(entry.path().filename().string()), nullptr) << entry.path();
  }
}

}  // namespace
}  // namespace reprise::fuzz
