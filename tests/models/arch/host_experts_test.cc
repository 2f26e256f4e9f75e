// Host experts of a GPU model: given the router's choice, their sums are bitwise identical to the CPU's MoE
// part, whatever the batch and the threads.

#include "models/host_experts.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>

#include "gpu/kernels.h"
#include "models/cpu/part.h"
#include "models/gpu_plan.h"
#include "tests/models/chosen_by_router.h"
#include "tests/models/tiny_model.h"

namespace reprise::models {
namespace {

class HostExpertsTest : public testing::Test {
 protected:
  static constexpr std::size_t kHidden = 20;

  HostExpertsTest() {
    const test::TinyModel tiny({.type = "qwen3_5_moe_text",
                                .hidden = kHidden,
                                .intermediate = 12,
                                .key_dim = 6,
                                .value_dim = 8,
                                .experts = 9,
                                .chosen = 3,
                                .expert_size = 11},
                               5);
    dir_.write("config.json", tiny.config_json());
    dir_.write("model.safetensors", tiny.safetensors().bytes());
    files_.emplace(ModelFiles::open(dir_.path()));
  }

  /// The MoE part of a layer, without its shared expert.
  MoeSpec spec_of(std::size_t layer) const {
    MoeSpec spec = *parts_of<MoeSpec>(files_->config().layers).at(layer);
    spec.shared_intermediate = 0;
    return spec;
  }

  std::vector<std::uint16_t> random_rows(std::size_t rows) {
    std::normal_distribution<float> normal(0, 1);
    std::vector<std::uint16_t> x(rows * kHidden);
    for (std::uint16_t& value : x) {
      value = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(normal(random_)) >> 16);
    }
    return x;
  }

  struct Mixture {
    test::RouterChoice choice;
    std::vector<float> y;
  };
  Mixture on_cpu(const MoeSpec& spec, const std::vector<std::uint16_t>& x, const ComputeOptions& options) {
    std::vector<float> wide(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      wide[i] = std::bit_cast<float>(static_cast<std::uint32_t>(x[i]) << 16);
    }
    gpu::Threads one(1);
    cpu::Scratch scratch;
    cpu::Step step{
        .kernels = gpu::cpu_kernels(options.isa), .threads = one, .options = options, .scratch = scratch};
    step.rows = x.size() / kHidden;
    Mixture out{.choice = test::chosen_by_router(spec, *files_, step, wide.data()),
                .y = std::vector<float>(x.size())};
    StateLayout state;
    cpu::RopeTables ropes;
    cpu::BuildContext context{.files = *files_, .options = options, .state = state, .ropes = ropes};
    cpu::make_part(spec, context)->apply(step, wide.data(), out.y.data());
    return out;
  }

  test::TempDir dir_;
  std::optional<ModelFiles> files_;
  std::mt19937 random_{7};
};

TEST_F(HostExpertsTest, AddUpToTheBitsOfTheMixture) {
  std::vector<MoeSpec> kinds(3, spec_of(0));
  kinds[1].scores = gpu::RouterScores::kSigmoid;
  kinds[1].scale = 2.5F;
  kinds[2].experts = 3;  // experts 3 and above are zero experts
  kinds[2].zero_experts = 6;
  kinds[2].chosen = 7;
  constexpr std::size_t kRows = 1100;  // more than one chunk of rows
  const std::vector<std::uint16_t> x = random_rows(kRows);
  for (const gpu::Isa isa : gpu::available_isas()) {
    for (const gpu::Compute compute : {gpu::Compute::kF32, gpu::Compute::kAuto}) {
      const ComputeOptions options{.compute = compute, .isa = isa};
      SCOPED_TRACE(std::string(gpu::name_of(isa)) + (compute == gpu::Compute::kF32 ? " f32" : " auto"));
      HostExperts host(options, 3);
      for (const MoeSpec& kind : kinds) {
        const std::size_t layer = host.add(kind, *files_);
        const Mixture expected = on_cpu(kind, x, options);
        std::vector<float> y(x.size());
        const auto sum = [&](std::size_t first, std::size_t rows) {
          host.sum(layer,
                   {.count = rows,
                    .x = x.data() + first * kHidden,
                    .experts = expected.choice.experts.data() + first * kind.chosen,
                    .weights = expected.choice.weights.data() + first * kind.chosen},
                   y.data() + first * kHidden);
          return std::memcmp(y.data() + first * kHidden, expected.y.data() + first * kHidden,
                             rows * kHidden * sizeof(float)) == 0;
        };
        EXPECT_TRUE(sum(0, kRows)) << "layer " << layer;
        EXPECT_TRUE(sum(17, 1)) << "one row alone";
        EXPECT_TRUE(sum(100, 37)) << "some rows";
      }
      EXPECT_EQ(host.layers(), kinds.size());
    }
  }
}

TEST_F(HostExpertsTest, KnowsItsLayersApart) {
  HostExperts host({}, 2);
  const std::vector<std::uint16_t> x = random_rows(5);
  const std::size_t first = host.add(spec_of(0), *files_);
  const std::size_t second = host.add(spec_of(1), *files_);
  for (const auto& [layer, spec] : {std::pair(first, spec_of(0)), std::pair(second, spec_of(1))}) {
    const Mixture expected = on_cpu(spec, x, {});
    std::vector<float> y(x.size());
    host.sum(layer,
             {.count = 5,
              .x = x.data(),
              .experts = expected.choice.experts.data(),
              .weights = expected.choice.weights.data()},
             y.data());
    EXPECT_EQ(y, expected.y);
  }
}

TEST_F(HostExpertsTest, NoRowsAreNoWork) {
  HostExperts host({}, 1);
  host.sum(host.add(spec_of(0), *files_), {}, nullptr);
}

TEST_F(HostExpertsTest, AnExpertThatThereIsNotIsABug) {
  HostExperts host({}, 1);
  const std::size_t layer = host.add(spec_of(0), *files_);
  const std::vector<std::uint16_t> x = random_rows(1);
  const std::vector<float> weights(3, 0.5F);
  std::vector<float> y(kHidden);
  const std::vector<std::int32_t> wrong[] = {{0, 1, 9}, {-1, 1, 2}, {1, 1, 2}};
  for (const std::vector<std::int32_t>& experts : wrong) {
    EXPECT_DEATH(
        host.sum(layer, {.count = 1, .x = x.data(), .experts = experts.data(), .weights = weights.data()},
                 y.data()),
        "experts are unknown, repeated or not ascending");
  }
}

TEST_F(HostExpertsTest, ALayersNumberOrAllOfThemAreNamed) {
  EXPECT_EQ(cpu_experts_named("0"), 0U);
  EXPECT_EQ(cpu_experts_named("12"), 12U);
  EXPECT_EQ(cpu_experts_named("all"), kAllLayers);
  for (const char* wrong : {"", "-1", "+1", " 1", "1 ", "1.5", "All", "none", "4294967295", "4294967296"}) {
    try {
      cpu_experts_named(wrong);
      FAIL() << wrong;
    } catch (const SettingError& error) {
      EXPECT_EQ(error.what(),
                "cpu-experts: '" + std::string(wrong) + "' is neither a number of layers nor all");
    }
  }
}

TEST_F(HostExpertsTest, TheFirstLayersStayOnTheHost) {
  const ModelConfig& config = files_->config();
  const std::size_t layers = parts_of<MoeSpec>(config.layers).size();
  ASSERT_GT(layers, 1U);
  EXPECT_TRUE(experts_on_host(config, 0).empty());
  EXPECT_EQ(experts_on_host(config, 1), std::set<std::string>{spec_of(0).name});
  EXPECT_EQ(experts_on_host(config, kAllLayers).size(), layers);
  EXPECT_EQ(experts_on_host(config, static_cast<std::uint32_t>(layers)).size(), layers);
  try {
    experts_on_host(config, static_cast<std::uint32_t>(layers) + 1);
    FAIL();
  } catch (const SettingError& error) {
    EXPECT_EQ(error.what(), "cpu-experts: " + std::to_string(layers + 1) + " layers, and the model has " +
                                std::to_string(layers) + " with experts; all names them");
  }
}

}  // namespace
}  // namespace reprise::models
