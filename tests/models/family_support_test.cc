// Checks the README's table of families: each sample is computed from each kind of file and compared with
// reference outputs and with itself. REPRISE_WRITE_README=1 writes the table instead.

#include <fstream>
#include <set>
#include <sstream>

#include "models/arch/families.h"
#include "models/gpu_plan.h"
#include "tests/models/family_runs.h"
#include "tests/models/files/checkpoint_files.h"
#include "tests/models/oracle.h"
#include "tests/models/quantized_copy.h"
#include "tests/source_folder.h"

namespace reprise::models {
namespace {

using test::FamilyRuns;
using test::FamilySample;

constexpr std::size_t kCases = 4;  // of the sample
constexpr const char* kBegin = "<!-- families: written by family_support_test -->\n";
constexpr const char* kEnd = "<!-- end of families -->\n";

const ComputeOptions kExact{.compute = gpu::Compute::kF32, .kv = gpu::KvType::kF32};
const ComputeOptions kFast{.compute = gpu::Compute::kAuto, .kv = gpu::KvType::kBF16};

std::vector<float> logits_after(Model& model, const std::vector<TokenId>& prompt) {
  gpu::StateStore store(model.state().sizes(), {.pages = 8, .slots = 1});
  std::optional<gpu::Sequence> sequence = store.open();
  EXPECT_TRUE(sequence && sequence->reserve(prompt.size()));
  const Slice slice{.sequence = &*sequence, .tokens = prompt};
  const std::span<const float> logits = model.forward({&slice, 1});
  return {logits.begin(), logits.end()};
}

/// Largest difference relative to the largest magnitude.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  double error = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(b[i])));
    error = std::max(error, static_cast<double>(std::abs(a[i] - b[i])));
  }
  return a.size() == b.size() ? error / largest : HUGE_VAL;
}

bool agrees_with_outside_answers(const FamilySample& row, const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return false;
  const std::vector<OracleCase> cases = oracle_cases(test::sample_folder(row));
  gpu::Threads threads(2);
  const std::unique_ptr<Model> exact = load_on_cpu(file, kExact, threads);
  const std::unique_ptr<Model> fast = load_on_cpu(file, kFast, threads);
  for (std::size_t i = 0; i < std::min(kCases, cases.size()); ++i) {
    const double of_exact = difference(logits_after(*exact, cases[i].prompt), cases[i].last);
    const double of_fast = difference(logits_after(*fast, cases[i].prompt), cases[i].last);
    EXPECT_LT(of_exact, 1e-4) << file << ", case " << i;
    EXPECT_LT(of_fast, 3e-2) << file << ", case " << i;
    if (!(of_exact < 1e-4 && of_fast < 3e-2)) return false;
  }
  return true;
}

/// Compares matrices in Q8_0 with the same values in f32.
bool computes_quantized(const FamilySample& row) {
  const std::filesystem::path file = test::sample_gguf(row);
  if (!row.gguf || !std::filesystem::exists(file)) return false;
  const test::QuantizedCopy copy(file);
  EXPECT_GT(copy.matrices(), 5U);
  const test::TempDir folder;
  gpu::Threads threads(2);
  const auto quantized = load_on_cpu(folder.write("q8.gguf", copy.quantized()), kExact, threads);
  const auto widened = load_on_cpu(folder.write("f32.gguf", copy.widened()), kExact, threads);
  const std::vector<TokenId> prompt = oracle_cases(test::sample_folder(row)).at(2).prompt;
  const double error = difference(logits_after(*quantized, prompt), logits_after(*widened, prompt));
  EXPECT_LT(error, 1e-4) << file;
  return error < 1e-4;
}

bool cached_equals_cold(const FamilySample& row) {
  for (const ComputeOptions& options : {kExact, kFast}) {
    FamilyRuns runs({row, options}, 2, {.pages = 32, .slots = 8});
    const std::vector<TokenId> tokens = runs.random_tokens(100, 4);
    gpu::Sequence cold = runs.open(tokens.size());
    const std::vector<float> reference = runs.prefill(cold, tokens);
    for (const std::size_t cut : {1, 3, 63, 64, 65, 99}) {
      gpu::Sequence source = runs.open(tokens.size());
      runs.prefill(source, std::span(tokens).first(cut));
      gpu::Sequence restored = runs.restore(runs.capture(source), tokens.size() - cut);
      const auto same = test::same_logits(runs.prefill(restored, std::span(tokens).subspan(cut)), reference,
                                          cut, runs.vocab());
      EXPECT_TRUE(same) << row;
      if (!same) return false;
    }
  }
  return true;
}

std::string line_of(const FamilySample& row) {
  const bool folder = std::filesystem::is_directory(test::sample_checkpoint(row)) &&
                      agrees_with_outside_answers(row, test::sample_checkpoint(row));
  const bool gguf = row.gguf && agrees_with_outside_answers(row, test::sample_gguf(row));
  const bool on_gpu = !gpu_refusal(ModelFiles::open(test::sample_checkpoint(row)).config());
  std::string out = "| `" + row.family + "` |";
  for (const bool found :
       {folder, gguf, computes_quantized(row), folder || gguf, on_gpu, cached_equals_cold(row)}) {
    out += found ? " yes |" : " – |";
  }
  return out + "\n";
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(FamilySupport, EveryFamilyHasASample) {
  std::set<std::string> sampled;
  for (const FamilySample& row : test::family_samples()) {
    sampled.insert(row.family);
    const ModelFiles sample = ModelFiles::open(test::sample_checkpoint(row));
    EXPECT_EQ(sample.config().architecture, row.family);
  }
  for (const Family& family : families())
    EXPECT_TRUE(sampled.contains(std::string(family.name))) << family.name;
  EXPECT_EQ(sampled.size(), families().size());
}

TEST(FamilySupport, TheReadmeSaysWhatWasFound) {
  SKIP_WITHOUT(test::oracle_folder());
  std::string table =
      "| family | safetensors | GGUF | quantized | CPU | CUDA | cached = cold |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const FamilySample& row : test::family_samples()) table += line_of(row);
  const std::filesystem::path path = source_folder() / "README.md";
  std::string readme = read_file(path);
  const std::size_t begin = readme.find(kBegin);
  const std::size_t end = readme.find(kEnd);
  ASSERT_TRUE(begin != readme.npos && end != readme.npos && begin < end) << "the README has no place for it";
  const std::size_t first = begin + std::strlen(kBegin);
  if (std::getenv("REPRISE_WRITE_README") != nullptr) {
    readme.replace(first, end - first, table);
    std::ofstream(path, std::ios::binary) << readme;
    return;
  }
  EXPECT_EQ(readme.substr(first, end - first), table) << "REPRISE_WRITE_README=1 writes what was found";
}

}  // namespace
}  // namespace reprise::models
