// Adapters on a GPU: results close to the CPU's, and rows that depend bit for bit on their own adapter only.

#include <cmath>

#include "tests/models/adapters/random_adapter.h"
#include "tests/models/cuda_fixture.h"

namespace reprise::models {
namespace {

using gpu::Sequence;

constexpr std::size_t kPrompt = 150;
constexpr std::size_t kDecoded = 5;

class CudaAdapters : public CudaModelTest {
 protected:
  void SetUp() override {
    CudaModelTest::SetUp();
    if (rig_ == nullptr) return;
    const ModelFiles& model = rig_->model().files();
    test::write_random_adapter(dir_.path() / "one", model, {"attn", "mlp"}, 4, 1);
    test::write_random_adapter(dir_.path() / "two", model, {"q_proj", "down_proj"}, 19, 2);
    tokens_ = rig_->random_tokens(kPrompt + kDecoded, 1);
  }
  void add_both(Model& model) const {
    model.add_adapter(1, Adapter::open(dir_.path() / "one", model.config()));
    model.add_adapter(2, Adapter::open(dir_.path() / "two", model.config()));
  }

  /// Prefills some tokens and decodes the last; returns the logits of all.
  static std::vector<float> run(ModelRig& rig, std::span<const TokenId> tokens, AdapterKey adapter) {
    Sequence sequence = rig.open(tokens.size());
    std::vector<float> all;
    const auto step = [&](std::span<const TokenId> part, Phase phase) {
      const Slice slice{
          .sequence = &sequence, .tokens = part, .logits = Slice::Logits::kAll, .adapter = adapter};
      const std::span<const float> logits = rig.model().forward({&slice, 1}, phase);
      all.insert(all.end(), logits.begin(), logits.end());
    };
    step(tokens.first(kPrompt), Phase::kPrefill);
    for (std::size_t i = kPrompt; i < tokens.size(); ++i) step(tokens.subspan(i, 1), Phase::kDecode);
    return all;
  }

  test::TempDir dir_;
  std::vector<TokenId> tokens_;
};

TEST_P(CudaAdapters, RowsDependOnTheirOwnAdapterAlone) {
  const std::vector<float> without = run(*rig_, tokens_, 0);
  add_both(rig_->model());
  const std::vector<float> alone[] = {run(*rig_, tokens_, 0), run(*rig_, tokens_, 1), run(*rig_, tokens_, 2)};
  EXPECT_TRUE(alone[0] == without) << "rows without an adapter have the bits of a model without adapters";
  EXPECT_FALSE(alone[1] == without);
  EXPECT_FALSE(alone[2] == without);
  EXPECT_FALSE(alone[2] == alone[1]);

  const AdapterKey keys[] = {1, 0, 2, 2, 1};
  std::vector<Sequence> sequences;
  for (std::size_t i = 0; i < std::size(keys); ++i) sequences.push_back(rig_->open(tokens_.size()));
  std::vector<std::vector<float>> logits(std::size(keys));
  const auto step = [&](std::size_t first, std::size_t count, Phase phase) {
    std::vector<Slice> slices;
    for (std::size_t i = 0; i < std::size(keys); ++i) {
      slices.push_back({.sequence = &sequences[i],
                        .tokens = std::span(tokens_).subspan(first, count),
                        .logits = Slice::Logits::kAll,
                        .adapter = keys[i]});
    }
    const std::span<const float> rows = rig_->model().forward(slices, phase);
    const std::size_t each = rows.size() / std::size(keys);
    for (std::size_t i = 0; i < std::size(keys); ++i) {
      const auto part = rows.subspan(i * each, each);
      logits[i].insert(logits[i].end(), part.begin(), part.end());
    }
  };
  step(0, kPrompt, Phase::kPrefill);
  for (std::size_t i = 0; i < kDecoded; ++i) step(kPrompt + i, 1, Phase::kDecode);
  for (std::size_t i = 0; i < std::size(keys); ++i) EXPECT_TRUE(logits[i] == alone[keys[i]]) << i;
}

// The two differ by bf16 rounding; the adapters change far more than that.
TEST_P(CudaAdapters, IsNearTheCpu) {
  ModelRig cpu(model_folder(NamedModel(GetParam()).model), "cpu", {.compute = gpu::Compute::kF32});
  add_both(cpu.model());
  add_both(rig_->model());
  const auto distance = [](const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    double size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
      size += static_cast<double>(b[i]) * b[i];
    }
    return std::sqrt(sum / size);
  };
  for (const AdapterKey key : {1, 2}) {
    const std::vector<float> wanted = run(cpu, tokens_, key);
    const double between = distance(run(*rig_, tokens_, key), wanted);
    EXPECT_LT(between, 0.1) << "adapter " << key;
    EXPECT_GT(distance(run(*rig_, tokens_, 0), wanted), 3 * between) << "adapter " << key;
  }
}

TEST_P(CudaAdapters, GivesItsMemoryBack) {
  const Adapter adapter = Adapter::open(dir_.path() / "one", rig_->model().config());
  EXPECT_GE(rig_->model().adapter_bytes(adapter), adapter.bytes());
  for (AdapterKey key = 1; key < 200; ++key) {
    rig_->model().add_adapter(key, adapter);
    rig_->model().remove_adapter(key);
  }
  rig_->model().add_adapter(1, adapter);
  EXPECT_FALSE(run(*rig_, tokens_, 1).empty());
}

INSTANTIATE_TEST_SUITE_P(Models, CudaAdapters,
                         testing::Values("llama", "qwen3", "qwen3_5_text", "builtin", "qwen3_5_text-precise"),
                         test_name);

}  // namespace
}  // namespace reprise::models
