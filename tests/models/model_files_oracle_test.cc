// Models written by other programs: Hugging Face folders by transformers, and the same weights as GGUF by
// llama.cpp's converter. Every GGUF tensor must equal the folder's once its transform is undone.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "models/model_files.h"
#include "tests/models/config_parts.h"
#include "tests/models/expect_error.h"
#include "tests/models/files/tensor_values.h"
#include "tests/models/oracle_folder.h"

namespace reprise::models {
namespace {

void expect_same_tensors(const ModelFiles& hf, const ModelFiles& gguf) {
  EXPECT_EQ(hf.names(), gguf.names());
  std::size_t elements = 0;
  std::size_t lost = 0;
  for (const std::string& name : hf.names()) {
    const Tensor a = hf.tensor(name);
    const Tensor b = gguf.tensor(name);
    EXPECT_EQ(a.shape, b.shape) << name;
    const std::vector<float> x = test::values(a);
    const std::vector<float> y = test::values(b);
    ASSERT_EQ(x.size(), y.size()) << name;
    elements += x.size();
    if (std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0) continue;
    // The converter adds 1 to zero-centered norms, which loses low bits of small weights, but the sum is
    // equal.
    const bool zero_centered = hf.config().final_norm.kind.offset == 1 && name.ends_with("norm.weight");
    ASSERT_TRUE(zero_centered) << name << " differs";
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(1.0f + x[i], 1.0f + y[i]) << name << " " << i;
      if (x[i] == y[i]) continue;
      ASSERT_LT(std::abs(x[i]), 1.0f / 65536) << name << " " << i;
      ++lost;
    }
  }
  std::printf("%zu tensors, %zu elements, %zu norm weights with lost bits\n", hf.names().size(), elements,
              lost);
}

void expect_same_config(const ModelConfig& a, const ModelConfig& b) {
  EXPECT_EQ(a.architecture, b.architecture);
  EXPECT_EQ(a.vocab, b.vocab);
  EXPECT_EQ(a.context_length, b.context_length);
  EXPECT_EQ(a.final_norm, b.final_norm);
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.head, b.head);
  if (attentions(a) == 0 || !attention_of(a).rope) return;
  EXPECT_EQ(rope_of(a).inv_freq, rope_of(b).inv_freq);
  EXPECT_EQ(rope_of(a).mrope_section, rope_of(b).mrope_section);
}

class CheckpointOracle : public testing::TestWithParam<std::string> {};

TEST_P(CheckpointOracle, BothFormatsHoldTheSameWeights) {
  const std::string& file = GetParam();  // FAMILY or FAMILY-TYPE
  const std::filesystem::path models = test::oracle("models/" + file.substr(0, file.find('-')));
  const std::filesystem::path gguf = test::oracle("gguf/" + file + ".gguf");
  SKIP_WITHOUT(models);
  SKIP_WITHOUT(gguf);
  const ModelFiles a = ModelFiles::open(models);
  const ModelFiles b = ModelFiles::open(gguf);
  a.validate();
  b.validate();
  expect_same_config(a.config(), b.config());
  expect_same_tensors(a, b);
}

INSTANTIATE_TEST_SUITE_P(Families, CheckpointOracle,
                         testing::Values("qwen3_5", "qwen3_5_text", "qwen3_5_text-bf16", "qwen3_5_moe_text",
                                         "qwen3_next", "qwen3", "llama", "mamba", "jamba", "mamba2"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(CheckpointReference, BlockTypesAreWeights) {
  const std::filesystem::path folder = test::oracle_folder() / "gguf";
  SKIP_WITHOUT(folder);
  for (const char* type : {"q8_0", "q4_0", "q4_k_m", "q5_k_m", "q6_k", "mixed"}) {
    const ModelFiles files = ModelFiles::open(folder / ("hybrid-" + std::string(type) + ".gguf"));
    EXPECT_EQ(gated_delta_nets(files.config()), 3u);
    const Tensor up = files.tensor("layers.0.mlp.up_proj.weight");
    EXPECT_GT(info(up.type).block_size, 1u) << type;
    EXPECT_EQ(up.bytes.size(), *byte_size(up.type, up.shape));
  }
}

TEST(CheckpointReference, OtherFamiliesAreRefusedByName) {
  const std::filesystem::path folder = reprise::test::data_folder() / "models";
  ASSERT_EQ(families().front().name, "llama");
  std::size_t refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == "llama" || !std::filesystem::exists(entry.path() / "config.json")) continue;
    EXPECT_LOAD_ERROR(ModelFiles::open(entry.path(), families().first(1)),
                      "unknown architecture '" + name.substr(0, 4))
        << name;
    ++refused;
  }
  EXPECT_GT(refused, 5u);
}

TEST(CheckpointReference, ReadsATrainedLlama) {
  const std::filesystem::path file = test::oracle_folder() / "stories260K" / "stories260K.gguf";
  SKIP_WITHOUT(file);
  const ModelFiles files = ModelFiles::open(file);
  files.validate();
  EXPECT_EQ(files.config().layers.size(), 5u);
  EXPECT_EQ(attention_of(files.config()).group(), 2u);
  EXPECT_EQ(files.tensor("layers.4.self_attn.k_proj.weight").shape, (Shape{32, 64}));
}

TEST(CheckpointReference, ReadsVocabularies) {
  const std::filesystem::path folder = test::oracle_folder() / "vocab";
  SKIP_WITHOUT(folder);
  const Gguf file = Gguf::open(folder / "ggml-vocab-gpt-2.gguf");
  EXPECT_EQ(file.metadata().strings("tokenizer.ggml.tokens").size(), 50257u);
  EXPECT_EQ(file.metadata().integers("tokenizer.ggml.token_type").size(), 50257u);
  EXPECT_EQ(file.tensors().tensors().size(), 0u);
}

}  // namespace
}  // namespace reprise::models
