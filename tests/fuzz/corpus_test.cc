// Every input that is kept, its beginnings, and inputs damaged at random, through each target: what was once found stays
// found, in every build. What breaks a CHECK lies in the folder for temporary files, as fuzz_finding_TARGET.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/mutator.h"
#include "tests/fuzz/targets.h"
#include "tests/sanitized.h"
#include "tests/source_folder.h"
#include "tests/thorough.h"

namespace reprise::fuzz {
namespace {

namespace fs = std::filesystem;

fs::path fuzz_folder() {
  return source_folder() / "tests" / "fuzz";
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Of libFuzzer's format: a word in quotes on each line, with \xNN for what is not plain.
std::vector<std::string> words_of(std::string_view dictionary) {
  std::vector<std::string> words;
  std::ifstream in(fuzz_folder() / "dictionaries" / (std::string(dictionary) + ".dict"));
  for (std::string line; std::getline(in, line);) {
    if (line.size() < 2 || line.front() != '"') continue;
    std::string word;
    for (std::size_t i = 1; i + 1 < line.size(); ++i) {
      const bool escaped = line[i] == '\\' && line[i + 1] == 'x';
      word += escaped ? static_cast<char>(std::stoi(line.substr(i + 2, 2), nullptr, 16)) : line[i];
      if (escaped) i += 3;
    }
    words.push_back(std::move(word));
  }
  return words;
}

class FuzzCorpus : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    finding() = fs::temp_directory_path() / ("fuzz_finding_" + std::string(GetParam().name));
    std::signal(SIGABRT, save_input);
  }
  void TearDown() override { std::signal(SIGABRT, SIG_DFL); }
  bool takes(std::string bytes) {
    input() = std::move(bytes);
    bool taken = false;
    EXPECT_NO_THROW(taken = GetParam().run(input()));
    return taken;
  }

 private:
  static std::string& input() {
    static std::string bytes;
    return bytes;
  }
  static std::string& finding() {
    static std::string file;
    return file;
  }
  static void save_input(int signal) {
    const int file = ::open(finding().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file >= 0 && ::write(file, input().data(), input().size()) >= 0) ::close(file);
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
};

TEST_P(FuzzCorpus, EveryInputIsTakenOrRefused) {
  std::vector<fs::path> files(fs::directory_iterator(fuzz_folder() / "corpus" / GetParam().name), {});
  std::sort(files.begin(), files.end());
  std::vector<std::string> inputs = {""};
  for (const fs::path& file : files) inputs.push_back(bytes_of(file));
  bool any_taken = false;
  for (const std::string& whole : inputs) {
    any_taken = takes(whole) || any_taken;
    const std::size_t step = thorough() ? 1 : std::max<std::size_t>(whole.size() / 24, 1);
    for (std::size_t size = 0; size < whole.size(); size += step) takes(whole.substr(0, size));
  }
  EXPECT_TRUE(any_taken);
  Mutator damaged(20261119, words_of(GetParam().dictionary));
  const int rounds = thorough() ? 20'000 : kSanitized ? 400 : 3000;
  int taken = 0;
  for (int i = 0; i < rounds && !HasFailure(); ++i) {
    const std::string& seed = inputs[damaged.below(inputs.size())];
    taken += takes(damaged(seed)) ? 1 : 0;
  }
  RecordProperty("taken", taken);
  EXPECT_GT(taken, rounds / 400) << "the damage is too much to reach far";
}

INSTANTIATE_TEST_SUITE_P(, FuzzCorpus, testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FuzzTargets, EveryCorpusHasATarget) {
  for (const auto& entry : fs::directory_iterator(fuzz_folder() / "corpus")) {
    EXPECT_NE(find_target(entry.path().filename().string()), nullptr) << entry.path();
  }
}

}  // namespace
}  // namespace reprise::fuzz
