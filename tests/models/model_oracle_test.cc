// The forward pass against outside implementations, for every family, format and instruction set.

#include <cmath>
#include <cstring>

#include "models/model.h"
#include "tests/models/family_table.h"
#include "tests/models/oracle.h"

namespace reprise::models {
namespace {

using gpu::Compute;
using gpu::Isa;
using gpu::KvType;

std::size_t argmax(std::span<const float> row) {
  return static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

struct Tolerance {
  double logits;  // of the row's largest magnitude
  double margin;  // greedy ids count until the first step with a smaller one
};

void expect_agreement(const std::filesystem::path& file, const std::vector<OracleCase>& cases,
                      const ComputeOptions& options, const Tolerance& tolerance) {
  SCOPED_TRACE(file.string() + " with " + std::string(name_of(options.isa)));
  gpu::Threads threads(2);
  const std::unique_ptr<Model> model = Model::load(file, options, threads);
  gpu::StateStore store(model->state().sizes(), {.pages = 64, .slots = 2});
  double worst = 0;
  for (const OracleCase& one : cases) {
    std::optional<gpu::Sequence> sequence = store.open();
    ASSERT_TRUE(sequence->reserve(one.prompt.size() + one.greedy.size()));
    std::vector<TokenId> tokens = one.prompt;
    for (std::size_t step = 0; step < one.greedy.size(); ++step) {
      const Slice slice{.sequence = &*sequence, .tokens = tokens};
      const std::span<const float> logits = model->forward({&slice, 1});
      ASSERT_EQ(logits.size(), one.last.size());
      if (step == 0) {
        double largest = 0;
        double error = 0;
        for (std::size_t i = 0; i < logits.size(); ++i) {
          largest = std::max(largest, static_cast<double>(std::abs(one.last[i])));
          error = std::max(error, static_cast<double>(std::abs(logits[i] - one.last[i])));
        }
        worst = std::max(worst, error / largest);
        EXPECT_LT(error / largest, tolerance.logits);
      }
      if (one.margin[step] < tolerance.margin) break;
      ASSERT_EQ(static_cast<TokenId>(argmax(logits)), one.greedy[step]) << "step " << step;
      tokens = {one.greedy[step]};
    }
  }
  std::printf("%-40s %-7s %s logits within %.1e\n", file.filename().c_str(),
              std::string(name_of(options.isa)).c_str(), options.compute == Compute::kF32 ? "f32 " : "auto",
              worst);
}

class ModelOracle : public testing::TestWithParam<test::FamilySample> {};

TEST_P(ModelOracle, AgreesInEveryFormatAndSetting) {
  const test::FamilySample& row = GetParam();
  const std::vector<OracleCase> cases = oracle_cases(test::sample_folder(row));
  std::vector<std::filesystem::path> files{test::sample_checkpoint(row)};
  if (row.gguf && std::filesystem::exists(test::oracle_folder())) {
    ASSERT_TRUE(std::filesystem::exists(test::sample_gguf(row))) << test::sample_gguf(row);
    if (test::sample_gguf(row) != files[0]) files.push_back(test::sample_gguf(row));
  }
  for (const std::filesystem::path& file : files) {
    for (const Isa isa : test::different_isas()) {
      expect_agreement(file, cases, {.compute = Compute::kF32, .kv = KvType::kF32, .isa = isa}, {1e-4, 2e-3});
      expect_agreement(file, cases, {.compute = Compute::kAuto, .kv = KvType::kBF16, .isa = isa},
                       {3e-2, 0.2});
    }
  }
}

/// The text model inside of a multimodal one.
TEST(WrappedModelOracle, AgreesInEveryFormatAndSetting) {
  const std::filesystem::path folder = test::oracle_folder() / "models" / "qwen3_5";
  SKIP_WITHOUT(folder);
  const std::vector<OracleCase> cases = oracle_cases(folder);
  for (const auto& file : {folder, test::oracle_folder() / "gguf" / "qwen3_5.gguf"}) {
    for (const Isa isa : test::different_isas()) {
      expect_agreement(file, cases, {.compute = Compute::kF32, .kv = KvType::kF32, .isa = isa}, {1e-4, 2e-3});
      expect_agreement(file, cases, {.compute = Compute::kAuto, .kv = KvType::kBF16, .isa = isa},
                       {3e-2, 0.2});
    }
  }
}

/// A trained model with a SentencePiece vocabulary. The reference rounds elsewhere than we do, so that a step
/// whose two best tokens are closer than this may go either way.
constexpr float kNearTie = 2e-3F;

TEST(StoriesOracle, ContinuesAsTheReferenceDoes) {
  const std::filesystem::path folder = test::oracle_folder() / "stories260K";
  SKIP_WITHOUT(folder);
  gpu::Threads threads(2);
  const std::unique_ptr<Model> model =
      Model::load(folder / "stories260K.gguf", {.compute = Compute::kF32, .kv = KvType::kF32}, threads);
  const JsonPlace cases = JsonPlace::read(folder / "cases.json").at("cases");
  std::size_t ties = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::vector<TokenId> greedy = token_ids(cases.at(i).at("greedy"));
    std::vector<TokenId> tokens = token_ids(cases.at(i).at("prompt_ids"));
    gpu::StateStore store(model->state().sizes(), {.pages = 64, .slots = 1});
    std::optional<gpu::Sequence> sequence = store.open();
    ASSERT_TRUE(sequence->reserve(tokens.size() + greedy.size()));
    for (std::size_t step = 0; step < greedy.size(); ++step) {
      const Slice slice{.sequence = &*sequence, .tokens = tokens};
      const std::span<const float> logits = model->forward({&slice, 1});
      const std::size_t best = argmax(logits);
      const auto expected = static_cast<std::size_t>(greedy[step]);
      if (best != expected) {
        ASSERT_LT(logits[best] - logits[expected], kNearTie) << "case " << i << ", step " << step;
        ++ties;
      }
      tokens = {greedy[step]};
    }
  }
  EXPECT_LE(ties, 3U);
}

INSTANTIATE_TEST_SUITE_P(Families, ModelOracle, testing::ValuesIn(test::family_samples()),
                         [](const auto& info) { return info.param.sample; });

}  // namespace
}  // namespace reprise::models
