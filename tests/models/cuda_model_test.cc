// Models on a GPU against the same models on the CPU in f32, and against outside answers. The GPU multiplies
// bf16, so logits differ by rounding. Also its choice of greedy tokens, and what it says of a state of NaN.
// Without a GPU all of it is skipped.

#include <cmath>
#include <cstdio>

#include "cuda_fixture.h"
#include "oracle.h"

namespace reprise::models {
namespace {

struct Tolerance {
  // Of a row's largest magnitude: the most that a logit may differ by, in the worst row and on average over
  // the rows' worst, and the distance between the two best from which on both sides must choose the same
  // token.
  double worst;
  double average;
  double choice_margin;
  // Logits: an outside answer's greedy token counts if its distance from the second best is at least this.
  double oracle_margin;
};

// Random weights behind a gated norm magnify any rounding: one operand rounded to bf16, in f32 elsewhere,
// moves a logit of qwen3_5 by up to 0.12 of the largest. transformers 5.17 in bf16 on an H200 differs from
// its own f32 by up to 7.3e-2 on qwen3_5_text's cases, and by 1.7e-2 on the other two families'.
Tolerance tolerance_for(const std::string& model) {
  if (model.starts_with("qwen3_5"))
    return {.worst = 0.25, .average = 2.5e-2, .choice_margin = 0.15, .oracle_margin = 0.3};
  return {.worst = 3e-2, .average = 1.5e-2, .choice_margin = 2e-2, .oracle_margin = 0.1};
}

struct Row {
  double largest = 0;
  double margin = 0;  // between the two best
};

Row figures_of(std::span<const float> row) {
  Row figures;
  const auto best = static_cast<std::size_t>(argmax(row));
  float second = -INFINITY;
  for (std::size_t i = 0; i < row.size(); ++i) {
    figures.largest = std::max(figures.largest, std::abs(static_cast<double>(row[i])));
    if (i != best) second = std::max(second, row[i]);
  }
  figures.margin = static_cast<double>(row[best]) - static_cast<double>(second);
  return figures;
}

/// Relative to the expected row's largest magnitude; NaN counts as infinite.
double error_of(std::span<const float> row, std::span<const float> expected) {
  double error = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const double difference = std::abs(static_cast<double>(row[i]) - static_cast<double>(expected[i]));
    error = std::isnan(difference) ? INFINITY : std::max(error, difference);
    if (std::isinf(error)) return error;
  }
  return error / figures_of(expected).largest;
}

struct Parity {
  Tolerance tolerance;
  double worst = 0;
  double sum = 0;
  std::size_t measured = 0;  // rows whose logits were compared
  std::size_t rows = 0;
  std::size_t clear = 0;     // rows whose best token is far enough from the second
  std::size_t differed = 0;  // of the others: rows with another best token

  void add(double error) {
    worst = std::max(worst, error);
    sum += error;
    ++measured;
  }
  double average() const { return sum / static_cast<double>(std::max<std::size_t>(measured, 1)); }

  /// Prints it too.
  void expect_good(const std::string& what) const {
    EXPECT_LT(worst, tolerance.worst) << what;
    EXPECT_LT(average(), tolerance.average) << what;
    std::printf(
        "%-46s %4zu rows: logits within %.1e, %.1e on average; %zu clear choices agree, %zu of %zu "
        "others do not\n",
        what.c_str(), rows, worst, average(), clear, differed, rows - clear);
  }
};

void compare(std::span<const float> logits, std::span<const float> expected, std::size_t vocab,
             Parity& parity) {
  ASSERT_EQ(logits.size(), expected.size());
  for (std::size_t at = 0; at < expected.size(); at += vocab) {
    const std::span<const float> row = logits.subspan(at, vocab);
    const std::span<const float> wanted = expected.subspan(at, vocab);
    const double error = error_of(row, wanted);
    parity.add(error);
    ++parity.rows;
    const Row figures = figures_of(wanted);
    if (figures.margin > parity.tolerance.choice_margin * figures.largest) {
      ASSERT_EQ(argmax(row), argmax(wanted)) << "row " << at / vocab;
      ++parity.clear;
    } else if (argmax(row) != argmax(wanted)) {
      ++parity.differed;
    }
  }
}

TEST_P(CudaModelTest, AgreesWithTheProcessor) {
  constexpr std::size_t kPrompt = 333;  // several tiles, the last one not full
  constexpr std::size_t kDecoded = 70;  // across an edge of a page
  ModelRig host(model_folder(GetParam()), "cpu", {.compute = gpu::Compute::kF32, .kv = gpu::KvType::kF32});
  const std::vector<TokenId> tokens = random_tokens(host.model(), kPrompt + kDecoded, 3);
  const std::span<const TokenId> prompt = std::span(tokens).first(kPrompt);
  const std::span<const TokenId> rest = std::span(tokens).subspan(kPrompt);
  gpu::Sequence theirs = host.open(tokens.size());
  gpu::Sequence ours = rig_->open(tokens.size());

  const Tolerance tolerance = tolerance_for(GetParam());
  Parity prefill{.tolerance = tolerance};
  compare(rig_->prefill(ours, prompt), host.prefill(theirs, prompt), host.vocab(), prefill);
  prefill.expect_good(std::string(GetParam()) + ", prefill");
  Parity decode{.tolerance = tolerance};
  compare(rig_->decode(ours, rest), host.decode(theirs, rest), host.vocab(), decode);
  decode.expect_good(std::string(GetParam()) + ", decode");
  EXPECT_GT(prefill.clear, kPrompt / 10);
  EXPECT_GT(decode.clear, kDecoded / 10);
}

TEST_P(CudaModelTest, TheDeviceChoosesTheBestLogit) {
  constexpr std::size_t kSize = 9;
  const std::size_t vocab = rig_->vocab();
  const std::vector<TokenId> tokens = random_tokens(rig_->model(), kSize, 12);
  std::vector<gpu::Snapshot> snapshots;
  for (unsigned i = 0; i < kSize; ++i) {
    gpu::Sequence sequence = rig_->open(20 + 30 * i);
    rig_->prefill(sequence, random_tokens(rig_->model(), 20 + 30 * i, i), Slice::Logits::kNone);
    snapshots.push_back(rig_->captured(sequence));
  }
  const auto decode = [&](const std::vector<std::optional<DrawPlan>>& plans, std::vector<float>& logits) {
    std::vector<gpu::Sequence> sequences;
    for (const gpu::Snapshot& snapshot : snapshots) sequences.push_back(rig_->restored(snapshot, 1));
    DecodePass pass;
    for (std::size_t i = 0; i < kSize; ++i) {
      pass.slices.push_back({.sequence = &sequences[i], .tokens = {&tokens[i], 1}});
    }
    pass.plans = plans;
    rig_->model().decode(pass);
    logits.assign(pass.logits.begin(), pass.logits.end());
    return pass.drawn;
  };
  std::vector<float> all;
  for (const auto& drawn : decode(std::vector<std::optional<DrawPlan>>(kSize), all)) EXPECT_FALSE(drawn);
  ASSERT_EQ(all.size(), kSize * vocab);
  for (const std::size_t every : {1U, 2U, 3U}) {
    std::vector<std::optional<DrawPlan>> plans(kSize);
    for (std::size_t i = 0; i < kSize; i += every) plans[i] = DrawPlan{.temperature = 0};
    std::vector<float> rest;
    const auto drawn = decode(plans, rest);
    std::size_t row = 0;
    for (std::size_t i = 0; i < kSize; ++i) {
      const auto logits = std::span(all).subspan(i * vocab, vocab);
      ASSERT_EQ(drawn[i].has_value(), plans[i].has_value());
      if (plans[i]) {
        EXPECT_FALSE(drawn[i]->error);
        EXPECT_EQ(drawn[i]->token, argmax(logits)) << "row " << i;
      } else {
        ASSERT_LE((row + 1) * vocab, rest.size());
        EXPECT_EQ(std::memcmp(rest.data() + row * vocab, logits.data(), vocab * sizeof(float)), 0)
            << "row " << i;
        ++row;
      }
    }
  }
}

TEST_P(CudaModelTest, PoisonIsTold) {
  gpu::Sequence sequence = rig_->open(100);
  rig_->prefill(sequence, random_tokens(rig_->model(), 99, 2), Slice::Logits::kNone);
  EXPECT_TRUE(rig_->captured(sequence).finite());
  rig_->store().poison(sequence);
  EXPECT_EQ(rig_->captured(sequence).finite(), rig_->model().state().attention_only());
  const TokenId token = 7;
  DecodePass pass;
  pass.slices.push_back({.sequence = &sequence, .tokens = {&token, 1}});
  pass.plans.emplace_back(DrawPlan{.temperature = 0});
  rig_->model().decode(pass);
  ASSERT_TRUE(pass.drawn[0].has_value());
  EXPECT_EQ(pass.drawn[0]->error, SampleError::kNoLogits);
}

INSTANTIATE_TEST_SUITE_P(Models, CudaModelTest, testing::ValuesIn(kModelNames),
                         [](const auto& info) { return std::string(info.param); });

/// Along the outside answer, whatever we would have chosen ourselves.
void follow(ModelRig& rig, const OracleCase& one, Parity& parity) {
  gpu::Sequence sequence = rig.open(one.prompt.size() + one.greedy.size());
  std::vector<float> logits = rig.prefill(sequence, one.prompt, Slice::Logits::kLast);
  if (!one.last.empty()) {
    ASSERT_EQ(logits.size(), one.last.size());
    const double error = error_of(logits, one.last);
    parity.add(error);
  }
  for (std::size_t step = 0; step < one.greedy.size(); ++step) {
    ++parity.rows;
    if (one.margin[step] >= parity.tolerance.oracle_margin) {
      ++parity.clear;
      ASSERT_EQ(argmax(logits), one.greedy[step])
          << "step " << step << " after a prompt of " << one.prompt.size();
    } else if (argmax(logits) != one.greedy[step]) {
      ++parity.differed;
    }
    logits = rig.decode(sequence, std::span(one.greedy).subspan(step, 1));
  }
}

class CudaOracle : public testing::TestWithParam<const char*> {};

TEST_P(CudaOracle, Agrees) {
  if (gpu::list_devices().empty()) GTEST_SKIP() << "no GPU";
  const std::filesystem::path oracle = test::oracle_folder();
  const std::string name = GetParam();
  std::vector<std::filesystem::path> files{oracle / "models" / name};
  for (const char* ending : {".gguf", "-bf16.gguf"}) files.push_back(oracle / "gguf" / (name + ending));
  if (!std::filesystem::exists(oracle)) files = {model_folder(name)};  // some are also kept here
  SKIP_WITHOUT(files[0]);
  const std::vector<OracleCase> cases = oracle_cases(files[0]);
  for (const std::filesystem::path& file : files) {
    if (!std::filesystem::exists(file)) continue;
    SCOPED_TRACE(file.string());
    ModelRig rig(file, "cuda:0", {});
    Parity parity{.tolerance = tolerance_for(name)};
    for (const OracleCase& one : cases) ASSERT_NO_FATAL_FAILURE(follow(rig, one, parity));
    EXPECT_GT(parity.clear, parity.rows / 4);
    parity.expect_good(file.parent_path().filename() / file.filename());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CudaOracle, testing::Values("qwen3_5", "qwen3_5_text", "qwen3", "llama"),
                         [](const auto& info) { return std::string(info.param); });

TEST(CudaBuiltin, SaysWhatTheReferenceSays) {
  if (gpu::list_devices().empty()) GTEST_SKIP() << "no GPU";
  ModelRig rig(model_folder("builtin"), "cuda:0", {});
  const Json cases = Json::read(REPRISE_SOURCE_DIR "/tests/data/builtin/greedy.json").at("cases");
  Parity parity{.tolerance = tolerance_for("builtin")};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    OracleCase one{.prompt = token_ids(cases.at(i).at("prompt")),
                   .greedy = token_ids(cases.at(i).at("greedy")),
                   .margin = {},
                   .last = {}};
    const Json margins = cases.at(i).at("margin");
    for (std::size_t k = 0; k < margins.size(); ++k) one.margin.push_back(margins.at(k).number());
    ASSERT_NO_FATAL_FAILURE(follow(rig, one, parity));
  }
  EXPECT_GT(parity.clear, 600U);
  std::printf("builtin: %zu of %zu greedy tokens are clear, and the same\n", parity.clear, parity.rows);
}

}  // namespace
}  // namespace reprise::models
