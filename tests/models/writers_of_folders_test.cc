// Folders whose config contradicts their tensors, as some writers make them: an LM head despite
// "tie_word_embeddings", no biases despite "attention_bias".

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "models/model.h"
#include "tests/models/family_table.h"
#include "tests/models/files/checkpoint_files.h"

namespace reprise::models {
namespace {

/// Copies a sample, with "KEY": false in its config changed to true.
std::filesystem::path with_true(const std::string& sample, const std::string& key, const test::TempDir& dir) {
  const std::filesystem::path from = test::sample_folder({.family = {}, .sample = sample});
  const std::filesystem::path to = dir.path() / sample;
  std::filesystem::create_directories(to);
  std::filesystem::copy_file(from / "model.safetensors", to / "model.safetensors");
  std::ostringstream text;
  text << std::ifstream(from / "config.json").rdbuf();
  std::string config = text.str();
  const std::size_t at = config.find("false", config.find('"' + key + '"'));
  EXPECT_NE(at, std::string::npos);
  config.replace(at, 5, "true");
  std::ofstream(to / "config.json") << config;
  return to;
}

std::vector<float> logits_of(const std::filesystem::path& folder) {
  gpu::Threads threads(1);
  const auto model = load_on_cpu(folder, {}, threads);
  gpu::StateStore store(model->state().sizes(), {.pages = 2, .slots = 1});
  std::optional<gpu::Sequence> sequence = store.open();
  EXPECT_TRUE(sequence && sequence->reserve(8));
  const std::vector<TokenId> tokens{5, 6, 7, 200, 9};
  const Slice slice{.sequence = &*sequence, .tokens = tokens, .logits = Slice::Logits::kAll};
  const std::span<const float> logits = model->forward({&slice, 1}, Phase::kPrefill);
  return {logits.begin(), logits.end()};
}

std::vector<float> logits_of_sample(const std::string& sample) {
  return logits_of(test::sample_folder({.family = {}, .sample = sample}));
}

TEST(WritersOfFolders, AHeadBesideATiedEmbeddingCounts) {
  const test::TempDir dir;
  for (const std::string sample : {"kimi_linear", "nemotron_h"}) {
    EXPECT_EQ(logits_of(with_true(sample, "tie_word_embeddings", dir)), logits_of_sample(sample)) << sample;
  }
}

TEST(WritersOfFolders, WhereTheModelTiesThemTheEmbeddingIsTheHead) {
  const test::TempDir dir;
  EXPECT_NE(logits_of(with_true("llama", "tie_word_embeddings", dir)), logits_of_sample("llama"));
}

TEST(WritersOfFolders, BiasesThatAreNotThereAreNone) {
  const test::TempDir dir;
  EXPECT_EQ(logits_of(with_true("nemotron_h", "attention_bias", dir)), logits_of_sample("nemotron_h"));
}

}  // namespace
}  // namespace reprise::models
