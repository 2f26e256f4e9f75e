// Models with random weights: the small shapes are written, loaded and run; bad ones are refused.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "models/files/json_location.h"
#include "models/files/load_error.h"
#include "models/model.h"
#include "tests/temp_dir.h"
#include "tools/lab/random_model/write.h"

namespace reprise::tools {
namespace {

/// That is not there yet.
class Folder {
 public:
  const std::filesystem::path& path() const { return path_; }

 private:
  const reprise::test::TempDir dir_;
  const std::filesystem::path path_ = dir_.path() / "model";
};

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class TinyShape : public testing::TestWithParam<const char*> {};

TEST_P(TinyShape, LoadsAndRuns) {
  const Folder folder;
  const std::uint64_t bytes = write_random_model(*shape_named(GetParam()), 1, folder.path());
  gpu::Threads threads(1);
  const auto model = models::load_on_cpu(folder.path(), {}, threads);
  EXPECT_EQ(model->files().total_bytes(), bytes);
  model->files().validate();
  gpu::StateStore store(model->state().sizes(), {.pages = 8, .slots = 1});
  std::optional<gpu::Sequence> sequence = store.open();
  ASSERT_TRUE(sequence.has_value() && sequence->reserve(200));
  std::vector<TokenId> tokens(200);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i * 7919 % 512);
  const models::Slice slice{.sequence = &*sequence, .tokens = tokens, .logits = models::Slice::Logits::kAll};
  const std::span<const float> logits = model->forward({&slice, 1});
  ASSERT_EQ(logits.size(), 200U * 512U);
  double squares = 0;
  for (const float logit : logits) {
    ASSERT_TRUE(std::isfinite(logit));
    squares += static_cast<double>(logit) * logit;
  }
  const double size = std::sqrt(squares / static_cast<double>(logits.size()));
  EXPECT_GT(size, 0.02);
  EXPECT_LT(size, 20);
}

INSTANTIATE_TEST_SUITE_P(Named, TinyShape,
                         testing::Values("qwen3_5-tiny", "qwen3_5_moe-tiny", "qwen3_next-tiny", "qwen3-tiny",
                                         "llama-tiny"),
                         [](const auto& info) { return "Shape" + std::to_string(info.index); });

std::vector<float> last_logits(const std::filesystem::path& folder) {
  gpu::Threads threads(1);
  const auto model = models::load_on_cpu(folder, {}, threads);
  model->files().validate();
  gpu::StateStore store(model->state().sizes(), {.pages = 2, .slots = 1});
  std::optional<gpu::Sequence> sequence = store.open();
  EXPECT_TRUE(sequence.has_value() && sequence->reserve(20));
  std::vector<TokenId> tokens(20);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i * 7919 % 512);
  const models::Slice slice{.sequence = &*sequence, .tokens = tokens, .logits = models::Slice::Logits::kLast};
  const std::span<const float> logits = model->forward({&slice, 1});
  return {logits.begin(), logits.end()};
}

TEST(RandomModel, InFp8IsTheSameButForRounding) {
  RandomShape shape = *shape_named("qwen3-tiny");
  shape.hidden = 256;
  shape.intermediate = 384;
  const Folder plain;
  const Folder small;
  const std::uint64_t bytes = write_random_model(shape, 1, plain.path());
  const std::uint64_t fewer = write_random_model(shape, 1, small.path(), FolderType::kFp8);
  EXPECT_LT(fewer, bytes);
  const std::vector<float> a = last_logits(plain.path());
  const std::vector<float> b = last_logits(small.path());
  ASSERT_EQ(a.size(), b.size());
  double product = 0;
  double squares_a = 0;
  double squares_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += static_cast<double>(a[i]) * b[i];
    squares_a += static_cast<double>(a[i]) * a[i];
    squares_b += static_cast<double>(b[i]) * b[i];
  }
  EXPECT_GT(product / std::sqrt(squares_a * squares_b), 0.95);
  EXPECT_NE(a, b);
}

TEST(RandomModel, IsAFunctionOfTheSeed) {
  const Folder one, same, other;
  const RandomShape& shape = *shape_named("qwen3_5-tiny");
  write_random_model(shape, 5, one.path());
  write_random_model(shape, 5, same.path());
  write_random_model(shape, 6, other.path());
  EXPECT_TRUE(bytes_of(one.path() / "model.safetensors") == bytes_of(same.path() / "model.safetensors"));
  EXPECT_FALSE(bytes_of(one.path() / "model.safetensors") == bytes_of(other.path() / "model.safetensors"));
}

TEST(RandomModel, EveryNamedShapeIsAModel) {
  for (const NamedShape& named : named_shapes()) {
    EXPECT_NO_THROW(
        models::ModelConfig::from_hf(models::JsonLocation::parse(config_json(named.shape), "config.json")))
        << named.name;
  }
}

TEST(RandomModel, RefusesAShapeThatIsNoModel) {
  const Folder folder;
  RandomShape shape = *shape_named("qwen3_5-tiny");
  shape.kv_heads = 3;
  EXPECT_THROW(write_random_model(shape, 1, folder.path()), models::LoadError);
  EXPECT_FALSE(std::filesystem::exists(folder.path()));
}

TEST(RandomModel, OfHeadsTooLargeForTheKernelsIsNotLoaded) {
  const Folder folder;
  RandomShape shape = *shape_named("llama-tiny");
  shape.head_dim = 1024;
  write_random_model(shape, 1, folder.path());
  gpu::Threads threads(1);
  EXPECT_THROW(models::load_on_cpu(folder.path(), {}, threads), models::LoadError);
}

TEST(RandomModel, OverwritesNothing) {
  const Folder folder;
  const RandomShape& shape = *shape_named("llama-tiny");
  write_random_model(shape, 1, folder.path());
  const std::string before = bytes_of(folder.path() / "model.safetensors");
  EXPECT_THROW(write_random_model(shape, 2, folder.path()), std::runtime_error);
  EXPECT_TRUE(before == bytes_of(folder.path() / "model.safetensors"));
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
  EXPECT_EQ(files, 2U);
}

}  // namespace
}  // namespace reprise::tools
