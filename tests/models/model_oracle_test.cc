// Forward pass compared with other implementations, for every family, format and ISA.

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
  double logits;  // error after the last token, relative to the row's largest magnitude
  double each;    // error after any token; near ties in routers may go either way
  double margin;  // greedy ids are compared up to the first step with a smaller margin
};

/// Largest error relative to the row's largest magnitude.
double error_of(std::span<const float> row, std::span<const float> expected) {
  double largest = 0;
  double error = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(expected[i])));
    error = std::max(error, static_cast<double>(std::abs(row[i] - expected[i])));
  }
  return error / largest;
}

void expect_agreement(const std::filesystem::path& file, const std::vector<OracleCase>& cases,
                      const ComputeOptions& options, const Tolerance& tolerance) {
  SCOPED_TRACE(file.string() + " with " + std::string(name_of(options.isa)));
  gpu::Threads threads(2);
  const std::unique_ptr<Model> model = load_on_cpu(file, options, threads);
  gpu::StateStore store(model->state().sizes(), {.pages = 64, .slots = 2});
  double worst = 0;
  std::size_t whole = 0;  // prompts compared after each token
  for (const OracleCase& one : cases) {
    std::optional<gpu::Sequence> sequence = store.open();
    ASSERT_TRUE(sequence->reserve(one.prompt.size() + one.greedy.size()));
    std::vector<TokenId> tokens = one.prompt;
    for (std::size_t step = 0; step < one.greedy.size(); ++step) {
      const bool every = step == 0 && !one.all.empty();
      const Slice slice{.sequence = &*sequence,
                        .tokens = tokens,
                        .logits = every ? Slice::Logits::kAll : Slice::Logits::kLast};
      const std::span<const float> rows = model->forward({&slice, 1});
      const std::size_t vocab = one.last.size();
      ASSERT_EQ(rows.size(), every ? one.all.size() : vocab);
      const std::span<const float> logits = rows.last(vocab);
      if (step == 0) {
        const double error = error_of(logits, one.last);
        worst = std::max(worst, error);
        EXPECT_LT(error, tolerance.logits);
      }
      if (every) {
        ASSERT_EQ(rows.size(), vocab * tokens.size());
        for (std::size_t i = 0; i < tokens.size(); ++i) {
          const double error =
              error_of(rows.subspan(i * vocab, vocab), std::span(one.all).subspan(i * vocab, vocab));
          worst = std::max(worst, error);
          EXPECT_LT(error, tolerance.each) << "after token " << i << " of " << tokens.size();
        }
        ++whole;
      }
      if (one.margin[step] < tolerance.margin) break;
      ASSERT_EQ(static_cast<TokenId>(argmax(logits)), one.greedy[step]) << "step " << step;
      tokens = {one.greedy[step]};
    }
  }
  EXPECT_GE(whole, 2U) << "prompts with logits after each token";
  std::printf("%-40s %-7s %s logits within %.1e\n", file.filename().c_str(),
              std::string(name_of(options.isa)).c_str(), options.compute == Compute::kF32 ? "f32 " : "auto",
              worst);
}

class ModelOracle : public testing::TestWithParam<test::FamilySample> {};

void expect_agreement_in_every_setting(const std::filesystem::path& file,
                                       const std::vector<OracleCase>& cases) {
  for (const Isa isa : test::different_isas()) {
    expect_agreement(file, cases, {.compute = Compute::kF32, .kv = KvType::kF32, .isa = isa},
                     {1e-4, 2e-4, 2e-3});
    expect_agreement(file, cases, {.compute = Compute::kAuto, .kv = KvType::kBF16, .isa = isa},
                     {3e-2, 0.15, 0.2});
  }
}

TEST_P(ModelOracle, AgreesInEverySetting) {
  const test::FamilySample& row = GetParam();
  expect_agreement_in_every_setting(test::sample_checkpoint(row), oracle_cases(test::sample_folder(row)));
}

/// The same models as written by llama.cpp's converter.
class ModelOracleGguf : public ModelOracle {};

TEST_P(ModelOracleGguf, AgreesInEverySetting) {
  const test::FamilySample& row = GetParam();
  const std::filesystem::path file = test::sample_gguf(row);
  SKIP_WITHOUT(file);
  expect_agreement_in_every_setting(file, oracle_cases(test::sample_folder(row)));
}

std::vector<test::FamilySample> samples_converted_to_gguf() {
  std::vector<test::FamilySample> rows;
  for (const test::FamilySample& row : test::family_samples()) {
    if (row.gguf && test::sample_gguf(row) != test::sample_checkpoint(row)) rows.push_back(row);
  }
  return rows;
}

TEST(WrappedModelOracle, AgreesInEveryFormatAndSetting) {
  const std::filesystem::path folder = test::oracle_folder() / "models" / "qwen3_5";
  SKIP_WITHOUT(folder);
  const std::vector<OracleCase> cases = oracle_cases(folder);
  for (const auto& file : {folder, test::oracle_folder() / "gguf" / "qwen3_5.gguf"}) {
    expect_agreement_in_every_setting(file, cases);
  }
}

/// A trained model with a SentencePiece vocabulary. The reference rounds differently: if the two best logits
/// are closer than this, either may win.
constexpr float kNearTie = 2e-3F;

TEST(StoriesOracle, ContinuesAsTheReferenceDoes) {
  const std::filesystem::path folder = test::oracle_folder() / "stories260K";
  SKIP_WITHOUT(folder);
  gpu::Threads threads(2);
  const std::unique_ptr<Model> model =
      load_on_cpu(folder / "stories260K.gguf", {.compute = Compute::kF32, .kv = KvType::kF32}, threads);
  const JsonLocation cases = JsonLocation::read(folder / "cases.json").at("cases");
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
INSTANTIATE_TEST_SUITE_P(Families, ModelOracleGguf, testing::ValuesIn(samples_converted_to_gguf()),
                         [](const auto& info) { return info.param.sample; });

}  // namespace
}  // namespace reprise::models
