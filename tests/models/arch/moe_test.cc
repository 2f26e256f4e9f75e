// Mixtures of experts: outputs match a naive implementation, a row's bits depend on that row alone, and ties
// between experts go to the first.

#include "models/cpu/moe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "models/cpu/host_model.h"
#include "tests/models/arch/naive_layers.h"
#include "tests/models/tiny_model.h"

namespace reprise::models {
namespace {

using gpu::Compute;
using test::TempDir;
using test::TinyModel;
using test::TinyOptions;

std::vector<gpu::Isa> isas_here() {
  std::vector<gpu::Isa> out;
  for (const gpu::Isa isa : {gpu::Isa::kPlain, gpu::Isa::kNeon, gpu::Isa::kAvx2, gpu::Isa::kAvx512}) {
    if (gpu::is_available(isa)) out.push_back(isa);
  }
  return out;
}

/// Sizes the CPU supports, not multiples of the vector width where that is allowed.
TinyOptions sized(TinyOptions options) {
  options.hidden = 20;
  options.intermediate = 12;
  options.value_dim = 8;
  options.key_dim = 6;
  options.expert_size = 11;
  if (options.shared_size != 0) options.shared_size = 13;
  return options;
}

ModelFiles open_folder(const TempDir& dir, const TinyModel& model) {
  dir.write("config.json", model.config_json());
  dir.write("model.safetensors", model.safetensors().bytes());
  return ModelFiles::open(dir.path());
}

TEST(MoeModel, ComputesWhatANaiveComputationGives) {
  const TinyOptions kinds[] = {
      {.type = "qwen3_5_moe_text", .experts = 9, .chosen = 3},
      {.type = "qwen3_5_moe_text",
       .value_heads = 2,
       .tied = true,
       .experts = 5,
       .chosen = 5,
       .stacked = true},
      {.type = "qwen3_5_moe_text", .experts = 1, .chosen = 1, .shared_size = 0},
      {.type = "qwen3_next", .value_heads = 6, .experts = 9, .chosen = 2, .normalized = false},
      {.type = "qwen3_next", .experts = 6, .chosen = 4, .sparse = {false, true, true, false}},
      {.type = "qwen3_next", .experts = 6, .shared_size = 0, .normalized = false, .stacked = true},
  };
  gpu::Threads threads(2);
  for (const TinyOptions& kind : kinds) {
    const TinyModel tiny(sized(kind), 3);
    const TempDir dir;
    test::Weights weights;
    for (const auto& [name, tensor] : tiny.tensors) weights[name] = tensor.values;
    std::vector<TokenId> prompt(70);
    for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(i * i * 7 % 11);
    for (const bool gguf : {false, true}) {
      SCOPED_TRACE(kind.type + (gguf ? " as GGUF" : ""));
      ModelFiles files =
          gguf ? ModelFiles::open(dir.write("m.gguf", tiny.gguf().bytes())) : open_folder(dir, tiny);
      cpu::HostModel model(std::move(files), {.compute = Compute::kF32, .kv = gpu::KvType::kF32}, threads,
                           threads);
      gpu::StateStore store(model.state().sizes(), {.pages = 2, .slots = 1});
      std::optional<gpu::Sequence> sequence = store.open();
      ASSERT_TRUE(sequence && sequence->reserve(prompt.size()));
      const Slice slice{.sequence = &*sequence, .tokens = prompt, .logits = Slice::Logits::kAll};
      const std::span<const float> logits = model.forward({&slice, 1}, Phase::kPrefill);
      const test::Rows expected = test::NaiveModel(model.config(), weights).run(prompt);
      for (std::size_t t = 0; t < prompt.size(); ++t) {
        for (std::size_t i = 0; i < tiny.o.vocab; ++i) {
          ASSERT_NEAR(logits[t * tiny.o.vocab + i], expected[t][i], 2e-4) << "token " << t;
        }
      }
    }
  }
}

class MoePart : public testing::Test {
 protected:
  static constexpr std::size_t kHidden = 20;

  MoePart() : tiny_(sized({.type = "qwen3_5_moe_text", .experts = 9, .chosen = 3}), 5) {}

  std::unique_ptr<cpu::Part> load() {
    files_.emplace(open_folder(dir_, tiny_));
    return make(*parts_of<MoeSpec>(files_->config().layers).front());
  }
  std::unique_ptr<cpu::Part> make(const MoeSpec& spec) {
    const ComputeOptions options;
    StateLayout state;
    cpu::RopeTables ropes;
    cpu::BuildContext context{.files = *files_, .options = options, .state = state, .ropes = ropes};
    return cpu::make_part(spec, context);
  }

  static std::vector<float> apply(const cpu::Part& moe, const std::vector<float>& x, gpu::Threads& threads,
                                  const ComputeOptions& options) {
    cpu::Scratch scratch;
    cpu::Step step{.kernels = gpu::cpu_kernels(options.isa),
                   .threads = threads,
                   .options = options,
                   .scratch = scratch,
                   .slices = {},
                   .rows = x.size() / kHidden};
    std::vector<float> y(x.size());
    moe.apply(step, x.data(), y.data());
    return y;
  }

  std::vector<float> random_rows(std::size_t rows) {
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> x(rows * kHidden);
    for (float& value : x) value = normal(random_);
    return x;
  }

  static bool same_row(const std::vector<float>& a, std::size_t i, const std::vector<float>& b,
                       std::size_t k) {
    return std::memcmp(a.data() + i * kHidden, b.data() + k * kHidden, kHidden * sizeof(float)) == 0;
  }

  std::vector<float>& weight(const std::string& name) {
    return tiny_.tensors.at("layers.0.mlp." + name + ".weight").values;
  }

  TempDir dir_;
  TinyModel tiny_;
  std::optional<ModelFiles> files_;
  std::mt19937 random_{7};
};

TEST_F(MoePart, ARowsBitsDependOnThatRowAlone) {
  constexpr std::size_t kRows = 1100;  // more than one chunk of rows
  const std::vector<float> x = random_rows(kRows);
  for (const gpu::Isa isa : isas_here()) {
    for (const Compute compute : {Compute::kF32, Compute::kAuto}) {
      const ComputeOptions options{.compute = compute, .isa = isa};
      SCOPED_TRACE(std::string(gpu::name_of(isa)) + (compute == Compute::kF32 ? " f32" : " auto"));
      const std::unique_ptr<cpu::Part> moe = load();
      gpu::Threads one(1);
      std::vector<float> alone;
      for (std::size_t row = 0; row < kRows; ++row) {
        const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row * kHidden);
        const std::vector<float> y = apply(*moe, {begin, begin + kHidden}, one, options);
        alone.insert(alone.end(), y.begin(), y.end());
      }
      for (unsigned count = 1; count <= 4; ++count) {
        gpu::Threads threads(count);
        for (const std::size_t rows : {kRows, std::size_t{2}, std::size_t{7}, std::size_t{130}}) {
          std::vector<std::size_t> order(rows);  // random rows, some twice
          for (std::size_t& row : order) row = random_() % kRows;
          std::vector<float> batch;
          for (const std::size_t row : order) {
            const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row * kHidden);
            batch.insert(batch.end(), begin, begin + kHidden);
          }
          const std::vector<float> y = apply(*moe, batch, threads, options);
          for (std::size_t i = 0; i < rows; ++i) ASSERT_TRUE(same_row(y, i, alone, order[i])) << i;
        }
      }
    }
  }
}

TEST_F(MoePart, EveryKindOfRouterIsItsDefinition) {
  load();
  const MoeSpec plain = *parts_of<MoeSpec>(files_->config().layers).front();
  std::vector<MoeSpec> kinds(6, plain);
  kinds[0].scores = gpu::RouterScores::kSigmoid;
  kinds[1].scores = gpu::RouterScores::kSigmoid;
  kinds[1].groups = 3;
  kinds[1].chosen_groups = 2;
  kinds[1].epsilon = 1e-20F;
  kinds[1].scale = 2.5F;
  kinds[2].shared_gate = false;
  for (const std::size_t i : {3, 4, 5}) {  // the last experts become zero experts
    kinds[i].experts = 3;
    kinds[i].zero_experts = 6;
    kinds[i].scale = 1.5F;
    kinds[i].normalized = i == 5;
  }
  kinds[4].shared_intermediate = 0;
  kinds[5].chosen = 7;  // more than there are real experts
  test::Weights weights;
  for (const auto& [name, tensor] : tiny_.tensors) weights[name] = tensor.values;
  const test::NaiveModel naive(files_->config(), weights);
  for (const MoeSpec& kind : kinds) {
    SCOPED_TRACE("kind " + std::to_string(&kind - kinds.data()));
    const std::unique_ptr<cpu::Part> moe = make(kind);
    gpu::Threads one(1);
    gpu::Threads two(2);
    const std::vector<float> x = random_rows(70);
    const std::vector<float> y = apply(*moe, x, two, {.compute = Compute::kF32});
    for (std::size_t row = 0; row < 70; ++row) {
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row * kHidden);
      const test::Row expected = naive.run_part(kind, {test::Row(begin, begin + kHidden)})[0];
      for (std::size_t i = 0; i < kHidden; ++i) {
        ASSERT_NEAR(y[row * kHidden + i], expected[i], 1e-4) << "row " << row;
      }
      const std::vector<float> alone = apply(*moe, {begin, begin + kHidden}, one, {.compute = Compute::kF32});
      ASSERT_TRUE(same_row(y, row, alone, 0)) << row;
    }
  }
}

TEST_F(MoePart, OfExpertsThatCountAlikeTheFirstAreChosen) {
  gpu::Threads threads(2);
  std::vector<float>& router = weight("gate");
  std::fill(router.begin(), router.end(), 0.0F);
  const std::vector<float> x = random_rows(5);
  for (const gpu::Isa isa : isas_here()) {
    const ComputeOptions options{.compute = Compute::kF32, .isa = isa};
    const std::vector<float> before = apply(*load(), x, threads, options);
    for (std::size_t e = 0; e < tiny_.o.experts; ++e) {
      std::vector<float>& down = weight("experts." + std::to_string(e) + ".down_proj");
      const std::vector<float> kept = down;
      for (float& value : down) value *= 2;
      const std::vector<float> after = apply(*load(), x, threads, options);
      down = kept;
      for (std::size_t row = 0; row < 5; ++row) {
        EXPECT_EQ(same_row(before, row, after, row), e >= tiny_.o.chosen) << "expert " << e;
      }
    }
  }
}

TEST_F(MoePart, WhatNobodyChoseDoesNotMatter) {
  gpu::Threads threads(2);
  // Expert 8 is never best, expert 7 always: the router sees the sign of the first element.
  std::vector<float>& router = weight("gate");
  for (std::size_t e = 0; e < tiny_.o.experts; ++e) {
    for (std::size_t i = 0; i < kHidden; ++i) {
      if (i > 0 || e >= 7)
        router[e * kHidden + i] = i > 0 ? router[e * kHidden + i] / 64 : e == 7 ? 64.0F : -64.0F;
    }
  }
  std::vector<float> x = random_rows(40);
  for (std::size_t row = 0; row < 40; ++row) x[row * kHidden] = 1;
  const std::vector<float> before = apply(*load(), x, threads, {});
  for (float& value : weight("experts.8.up_proj")) value = INFINITY;
  EXPECT_EQ(apply(*load(), x, threads, {}), before);
  for (float& value : weight("experts.7.up_proj")) value *= 2;
  const std::vector<float> after = apply(*load(), x, threads, {});
  for (std::size_t row = 0; row < 40; ++row) EXPECT_FALSE(same_row(before, row, after, row)) << row;
}

TEST(ExpertRows, GathersRowsByExpert) {
  const std::vector<std::uint32_t> chosen{1, 3, 0, 3, 1, 4};
  const cpu::ExpertRows rows(chosen, 2, 6);
  ASSERT_EQ(rows.runs().size(), 4u);
  const std::size_t experts[] = {0, 1, 3, 4};
  const std::size_t counts[] = {1, 2, 2, 1};
  std::size_t first = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(rows.runs()[i].expert, experts[i]);
    EXPECT_EQ(rows.runs()[i].first, first);
    EXPECT_EQ(rows.runs()[i].count, counts[i]);
    first += counts[i];
  }
  EXPECT_EQ(rows.routed_rows(), 6u);
  EXPECT_TRUE(std::ranges::equal(rows.row_at(), std::vector<std::uint32_t>{1, 0, 2, 0, 1, 2}));
  EXPECT_TRUE(std::ranges::equal(rows.routed_rows_of(0), std::vector<std::uint32_t>{1, 3}));
  EXPECT_TRUE(std::ranges::equal(rows.routed_rows_of(1), std::vector<std::uint32_t>{0, 4}));
  EXPECT_TRUE(std::ranges::equal(rows.routed_rows_of(2), std::vector<std::uint32_t>{2, 5}));
  EXPECT_FALSE(rows.is_consecutive(rows.runs()[1]));
  EXPECT_TRUE(rows.is_consecutive(rows.runs()[2]));
}

}  // namespace
}  // namespace reprise::models
