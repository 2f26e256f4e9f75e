// Runs each target with all inputs of its corpus, their prefixes, and random mutations of them. Targets with
// a grower get fewer inputs, on a stack as small as a server thread's. A failing input is left in the
// temporary folder as fuzz_finding_TARGET.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/draws.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/oracle.h"
#include "tests/fuzz/targets.h"
#include "tests/sanitized.h"
#include "tests/small_stack.h"
#include "tests/source_folder.h"
#include "tests/thorough.h"

namespace reprise::fuzz {
namespace {

namespace fs = std::filesystem;

fs::path fuzz_folder() {
  return source_folder() / "tests" / "fuzz";
}

/// Returns the quoted text at the end of a line, with C escapes and \xNN decoded.
std::string unquoted(std::string_view line) {
  constexpr std::string_view kSigns = "nrt";
  constexpr std::string_view kMeant = "\n\r\t";
  std::string text;
  for (std::size_t i = line.find('"') + 1; i + 1 < line.size(); ++i) {
    if (line[i] != '\\') {
      text += line[i];
    } else if (line[++i] == 'x') {
      text += static_cast<char>(std::stoi(std::string(line.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      const std::size_t sign = kSigns.find(line[i]);
      text += sign != kSigns.npos ? kMeant[sign] : line[i];
    }
  }
  return text;
}

/// Parses a libFuzzer dictionary: one quoted word per line.
std::vector<std::string> words_of(std::string_view dictionary) {
  std::vector<std::string> words;
  std::ifstream in(fuzz_folder() / "dictionaries" / (std::string(dictionary) + ".dict"));
  for (std::string line; std::getline(in, line);) {
    if (line.size() >= 2 && line.front() == '"') words.push_back(unquoted(line));
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

/// The format is described in tools/fuzz.
std::vector<std::string> kept_inputs(const Target& target) {
  std::vector<std::string> inputs = {""};
  std::ifstream in(fuzz_folder() / "corpus" / (std::string(target.name) + ".txt"));
  EXPECT_TRUE(in) << "no corpus";
  for (std::string line; std::getline(in, line);) inputs.push_back(unquoted(line));
  return inputs;
}

TEST_P(FuzzCorpus, EveryInputIsTakenOrRefused) {
  const std::vector<std::string> inputs = kept_inputs(GetParam());
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

std::vector<Target> targets_with_grower(bool has_grower) {
  std::vector<Target> chosen;
  for (const Target& target : targets()) {
    if ((target.grow != nullptr) == has_grower) chosen.push_back(target);
  }
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(, FuzzCorpus, testing::ValuesIn(targets_with_grower(false)),
                         [](const auto& info) { return std::string(info.param.name); });

class FuzzGrowth : public testing::TestWithParam<Target> {
 protected:
  /// Saves the input to a file during the run, since a stack overflow ends the process.
  void run(const std::string& input, const std::string& name) {
    const fs::path finding = fs::temp_directory_path() / ("fuzz_finding_" + std::string(GetParam().name));
    std::ofstream(finding, std::ios::binary | std::ios::trunc) << input;
    Watched run;
    EXPECT_NO_THROW(run = run_watched(GetParam(), input, {.stack_bytes = kSmallStack})) << name;
    EXPECT_EQ(run.fault, "") << name << ", which is kept as " << finding;
    taken_ += run.taken ? 1 : 0;
    if (!HasFailure()) fs::remove(finding);
  }

  int taken_ = 0;
};

TEST_P(FuzzGrowth, StaysWithinTimeMemoryAndStack) {
  const std::vector<std::string> kept = kept_inputs(GetParam());
  for (std::size_t i = 0; i < kept.size() && !HasFailure(); ++i)
    run(kept[i], "kept input " + std::to_string(i));
  const int count = thorough() ? 4000 : rounds(160);
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const std::uint64_t seed = 20261119 + static_cast<std::uint64_t>(i);
    std::mt19937_64 random(seed);
    std::string input;
    for (int byte = 0; byte < 24; ++byte) input += static_cast<char>(random() % 256);
    run(input, "seed " + std::to_string(seed));
  }
  RecordProperty("taken", taken_);
  EXPECT_GT(taken_, count / 10) << "they are mostly nonsense";
  EXPECT_LT(taken_, count + static_cast<int>(kept.size())) << "they are harmless";
}

INSTANTIATE_TEST_SUITE_P(, FuzzGrowth, testing::ValuesIn(targets_with_grower(true)),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FuzzGrowers, GiveTheSameTextForTheSameInput) {
  for (const Target& target : targets_with_grower(true)) {
    const std::string input = "0123456789abcdef";
    const std::string text = text_of(target, input);
    EXPECT_EQ(text_of(target, input), text) << target.name;
    EXPECT_NE(text_of(target, "fedcba9876543210"), text) << target.name;
  }
}

namespace oracle_samples {

std::string* kept = nullptr;

bool works_on(std::string_view) {
  std::uint64_t last = 0;
  Draws draws(std::uint64_t{1});
  for (int i = 0; i < 1'000'000; ++i) last = draws.below(1u << 20);
  return last > 0;
}
bool holds_much(std::string_view) {
  std::string much(std::size_t{9} << 20, 'x');
  kept = &much;  // prevents its elimination
  return true;
}
bool gives_back(std::string_view) {
  for (int i = 0; i < 30; ++i) {
    std::string some(std::size_t{1} << 20, 'x');
    kept = &some;
  }
  return true;
}

}  // namespace oracle_samples

TEST(FuzzOracle, NamesWhatIsExceeded) {
  const Bounds bounds{.seconds = 60, .bytes = std::int64_t{8} << 20, .stack_bytes = kSmallStack};
  const auto fault = [](bool (*run)(std::string_view), const Bounds& within) {
    return run_watched({"sample", run}, "x", within).fault;
  };
  EXPECT_EQ(fault(oracle_samples::works_on, bounds), "");
  EXPECT_EQ(fault(oracle_samples::gives_back, bounds), "");
  EXPECT_NE(fault(oracle_samples::holds_much, bounds).find("MiB at once for 1 bytes; the limit is 8 MiB"),
            std::string::npos);
  Bounds short_time = bounds;
  short_time.seconds = 1e-6;
  EXPECT_NE(fault(oracle_samples::works_on, short_time).find("s of CPU time for 1 bytes"), std::string::npos);
}

TEST(FuzzTargets, EveryCorpusHasATarget) {
  for (const auto& entry : fs::directory_iterator(fuzz_folder() / "corpus")) {
    EXPECT_NE(find_target(entry.path().stem().string()), nullptr) << entry.path();
  }
}

}  // namespace
}  // namespace reprise::fuzz
