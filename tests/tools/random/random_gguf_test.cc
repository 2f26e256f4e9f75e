// GGUF files with random weights: of every type, loaded and run; their mixes; parts.

#include <gtest/gtest.h>

#include <cmath>

#include "gpu/kernels.h"
#include "models/files/load_error.h"
#include "models/model.h"
#include "models/weight_tensors.h"
#include "tests/temp_dir.h"
#include "tools/lab/random_model/random_blocks.h"
#include "tools/lab/random_model/write.h"

namespace reprise::tools {
namespace {

using models::DType;

/// Rows of whole blocks of 256. Its value heads are tiled in the file, in units smaller than such a block.
RandomShape small_shape() {
  RandomShape shape = *shape_named("qwen3_5-tiny");
  shape.hidden = 256;
  shape.intermediate = 512;
  shape.head_dim = 64;
  shape.key_head_dim = shape.value_head_dim = 64;
  shape.vocab = 128;
  return shape;
}

std::vector<float> logits_of(const std::filesystem::path& path, gpu::Compute compute) {
  gpu::Threads threads(1);
  models::ComputeOptions options;
  options.compute = compute;
  const auto model = models::load_on_cpu(path, options, threads);
  model->files().validate();
  gpu::StateStore store(model->state().sizes(), {.pages = 8, .slots = 1});
  std::optional<gpu::Sequence> sequence = store.open();
  EXPECT_TRUE(sequence.has_value() && sequence->reserve(12));
  std::vector<TokenId> tokens(12);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i * 17 % 128);
  const models::Slice slice{.sequence = &*sequence, .tokens = tokens, .logits = models::Slice::Logits::kAll};
  const std::span<const float> logits = model->forward({&slice, 1});
  return {logits.begin(), logits.end()};
}

const char* const kTypes[] = {"F32",  "F16",  "BF16", "Q8_0", "Q4_0", "Q4_1",   "Q5_0",   "Q5_1",
                              "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"};

TEST(RandomGguf, EveryTypeHasWeightsOfTheScaleAskedFor) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(DType::kCount); ++i) {
    const auto type = static_cast<DType>(i);
    if (!has_random_blocks(type)) continue;
    const gpu::WeightFormat* format = models::format_of(type);
    ASSERT_NE(format, nullptr) << models::info(type).name;
    for (const float deviation : {0.02F, 0.004F}) {
      constexpr std::size_t kColumns = 1 << 16;
      std::vector<std::byte> blocks(kColumns / format->block_size * format->block_bytes);
      Random random(3, "blocks");
      random_blocks(type, deviation, random, blocks);
      std::vector<float> values(kColumns);
      const gpu::WeightView view{.format = format, .rows = 1, .columns = kColumns, .data = blocks.data()};
      gpu::cpu_kernels(gpu::Isa::kPlain).format(*format).widen_row(view, 0, values.data());
      double sum = 0;
      double squares = 0;
      for (const float value : values) {
        sum += value;
        squares += static_cast<double>(value) * value;
      }
      const double spread = std::sqrt(squares / kColumns);
      EXPECT_GT(spread, 0.6 * deviation) << format->name;
      EXPECT_LT(spread, 1.7 * deviation) << format->name;
      EXPECT_LT(std::abs(sum / kColumns), 0.1 * deviation) << format->name;
    }
  }
}

TEST(RandomGguf, EveryTypeLoadsAndRuns) {
  for (const char* type : kTypes) {
    const reprise::test::TempDir folder;
    const std::uint64_t bytes =
        write_random_gguf(small_shape(), GgufTypes(type), 1, folder.path() / "m.gguf");
    EXPECT_EQ(models::ModelFiles::open(folder.path() / "m.gguf").total_bytes(), bytes) << type;
    const std::vector<float> exact = logits_of(folder.path() / "m.gguf", gpu::Compute::kF32);
    const std::vector<float> fast = logits_of(folder.path() / "m.gguf", gpu::Compute::kAuto);
    ASSERT_EQ(exact.size(), 12U * 128U);
    double squares = 0;
    double errors = 0;  // by the rounding of activations
    for (std::size_t i = 0; i < exact.size(); ++i) {
      ASSERT_TRUE(std::isfinite(exact[i])) << type;
      squares += static_cast<double>(exact[i]) * exact[i];
      errors += static_cast<double>(fast[i] - exact[i]) * (fast[i] - exact[i]);
    }
    const double size = std::sqrt(squares / static_cast<double>(exact.size()));
    EXPECT_GT(size, 0.02) << type;
    EXPECT_LT(size, 20) << type;
    EXPECT_LT(std::sqrt(errors / squares), 0.2) << type;  // found: 0.04 to 0.10
  }
}

TEST(RandomGguf, MixesAreThoseOfTheQuantizer) {
  const GgufTypes mix("Q4_K_M");
  const auto type = [&](const GgufTypes& types, const std::string& name, std::size_t layer,
                        std::uint64_t columns = 512, bool is_head = false) {
    return types.type_of(
        {.name = name, .shape = {256, columns}, .layer = layer, .layers = 24, .is_head = is_head});
  };
  EXPECT_EQ(type(mix, "output.weight", 0, 512, true), DType::kQ6_K);
  EXPECT_EQ(type(mix, "token_embd.weight", 0), DType::kQ4_K);
  EXPECT_EQ(type(mix, "blk.0.ffn_down.weight", 0), DType::kQ6_K);  // the first eighth
  EXPECT_EQ(type(mix, "blk.3.ffn_down.weight", 3), DType::kQ4_K);
  EXPECT_EQ(type(mix, "blk.5.ffn_down.weight", 5), DType::kQ6_K);  // every third
  EXPECT_EQ(type(mix, "blk.23.attn_v.weight", 23), DType::kQ6_K);  // the last eighth
  EXPECT_EQ(type(mix, "blk.5.attn_qkv.weight", 5), DType::kQ6_K);
  EXPECT_EQ(type(mix, "blk.5.ffn_up.weight", 5), DType::kQ4_K);
  EXPECT_EQ(type(mix, "blk.5.ffn_gate_inp.weight", 5), DType::kF32);
  EXPECT_EQ(type(mix, "blk.5.ffn_up.weight", 5, 160), DType::kQ5_0);  // not whole blocks of 256
  EXPECT_EQ(type(mix, "blk.5.ffn_up.weight", 5, 20), DType::kF16);    // nor of 32
  EXPECT_EQ(type(GgufTypes("Q8_0"), "output.weight", 0, 512, true), DType::kQ8_0);
  EXPECT_EQ(type(GgufTypes("IQ4_XS"), "blk.0.ffn_down.weight", 0), DType::kQ5_K);
  EXPECT_EQ(type(GgufTypes("IQ4_XS"), "blk.9.ffn_down.weight", 9), DType::kIQ4_XS);
  const GgufTypes exceptions("Q4_K_M,ffn_down=Q8_0,blk.5.=F16");
  EXPECT_EQ(type(exceptions, "blk.4.ffn_down.weight", 4), DType::kQ8_0);
  EXPECT_EQ(type(exceptions, "blk.5.ffn_down.weight", 5), DType::kF16);
  EXPECT_EQ(type(exceptions, "blk.4.ffn_up.weight", 4), DType::kQ4_K);
  EXPECT_THROW(GgufTypes("Q9_Z"), std::invalid_argument);
  EXPECT_THROW(GgufTypes("IQ1_S"), std::invalid_argument);
  EXPECT_THROW(GgufTypes("Q4_K_M,ffn_down"), std::invalid_argument);
}

TEST(RandomGguf, PartsAreOneModel) {
  const reprise::test::TempDir folder;
  const GgufTypes types("Q4_K_M");
  write_random_gguf(small_shape(), types, 9, folder.path() / "one.gguf");
  write_random_gguf(small_shape(), types, 9, folder.path() / "three.gguf", 3);
  const std::vector<float> one = logits_of(folder.path() / "one.gguf", gpu::Compute::kAuto);
  EXPECT_EQ(one, logits_of(folder.path() / "three-00001-of-00003.gguf", gpu::Compute::kAuto));
  EXPECT_EQ(one, logits_of(folder.path() / "three-00003-of-00003.gguf", gpu::Compute::kAuto));
  std::filesystem::remove(folder.path() / "three-00002-of-00003.gguf");
  try {
    models::ModelFiles::open(folder.path() / "three-00003-of-00003.gguf");
    FAIL() << "a part is missing";
  } catch (const models::LoadError& error) {
    EXPECT_NE(std::string(error.what()).find("three-00002-of-00003.gguf"), std::string::npos) << error.what();
  }
}

// Heads of 64 columns in blocks of 256 cannot be moved: the weight stays as the file has it, and its inputs are
// brought into its order. In Q8_0 they can be, and are.
TEST(RandomGguf, ColumnsThatCannotBeMovedStay) {
  const std::string name = "layers.0.linear_attn.out_proj.weight";
  const reprise::test::TempDir folder;
  write_random_gguf(small_shape(), GgufTypes("Q6_K"), 2, folder.path() / "k.gguf");
  write_random_gguf(small_shape(), GgufTypes("Q8_0"), 2, folder.path() / "8.gguf");
  const models::ModelFiles blocks = models::ModelFiles::open(folder.path() / "k.gguf");
  EXPECT_THROW(blocks.tensor(name), models::LoadError);
  const models::Tensor tensor = blocks.tensor(name, models::ColumnOrder::kAny);
  EXPECT_EQ(tensor.owned, nullptr);
  // Two heads of keys, four of values: the file has heads 0, 2, 1, 3.
  ASSERT_EQ(tensor.column_order.size(), 256U);
  EXPECT_EQ(tensor.column_order[0], 0U);
  EXPECT_EQ(tensor.column_order[64], 128U);
  EXPECT_EQ(tensor.column_order[129], 65U);
  EXPECT_EQ(tensor.column_order[255], 255U);
  const models::ModelFiles bytes = models::ModelFiles::open(folder.path() / "8.gguf");
  EXPECT_TRUE(bytes.tensor(name, models::ColumnOrder::kAny).column_order.empty());
}

}  // namespace
}  // namespace reprise::tools
