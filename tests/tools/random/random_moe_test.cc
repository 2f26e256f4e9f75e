// Mixtures of experts in quantized GGUF files: a row's bits depend on neither cuts, batch nor threads.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "models/model.h"
#include "tests/temp_dir.h"
#include "tools/lab/random_model/write.h"

namespace reprise::tools {
namespace {

constexpr std::size_t kTokens = 24;
constexpr std::size_t kVocab = 64;

/// Matrices of whole blocks of 256.
RandomShape small_mixture(const char* name) {
  RandomShape shape = *shape_named(name);
  shape.hidden = 256;
  shape.head_dim = 64;
  shape.key_head_dim = shape.value_head_dim = 64;
  shape.vocab = kVocab;
  shape.expert_intermediate = shape.shared_intermediate = 256;
  shape.experts = 6;
  shape.experts_per_token = 3;
  return shape;
}

TokenId token_at(std::size_t i) {
  return static_cast<TokenId>(i * i * 7 % kVocab);
}

class QuantizedExperts {
 public:
  QuantizedExperts(const std::filesystem::path& file, unsigned threads)
      : threads_(threads), model_(models::load_on_cpu(file, {}, threads_)) {}

  /// Logits of all tokens, in slices that end at `cuts`; with `strangers` beside each.
  std::vector<float> run(const std::vector<std::size_t>& cuts, std::size_t strangers) {
    gpu::StateStore store(model_->state().sizes(), {.pages = 16, .slots = 8});
    std::vector<gpu::Sequence> sequences;
    for (std::size_t i = 0; i <= strangers; ++i) {
      std::optional<gpu::Sequence> sequence = store.open();
      EXPECT_TRUE(sequence.has_value() && sequence->reserve(kTokens));
      sequences.push_back(std::move(*sequence));
    }
    std::vector<float> out;
    std::size_t done = 0;
    for (const std::size_t cut : cuts) {
      std::vector<TokenId> own;
      for (std::size_t i = done; i < cut; ++i) own.push_back(token_at(i));
      const TokenId other = token_at(done + 3);
      std::vector<models::Slice> batch;
      for (std::size_t i = 1; i <= strangers; ++i) {
        batch.push_back({&sequences[i], {&other, 1}, models::Slice::Logits::kNone});
      }
      batch.push_back({&sequences[0], own, models::Slice::Logits::kAll});
      const std::span<const float> logits = model_->forward(batch);
      out.insert(out.end(), logits.begin(), logits.end());
      done = cut;
    }
    return out;
  }

 private:
  gpu::Threads threads_;
  std::unique_ptr<models::Model> model_;
};

TEST(RandomMoe, QuantizedExpertsGiveTheSameBitsInEveryBatch) {
  std::vector<std::size_t> one_by_one(kTokens);
  for (std::size_t i = 0; i < kTokens; ++i) one_by_one[i] = i + 1;
  for (const char* shape : {"qwen3_5_moe-tiny", "qwen3_next-tiny"}) {
    for (const char* type : {"BF16", "Q8_0", "Q4_0", "Q4_K_M", "Q6_K", "IQ4_XS", "Q4_K_M,ffn_up_exps=Q8_0"}) {
      SCOPED_TRACE(std::string(shape) + " in " + type);
      const reprise::test::TempDir folder;
      write_random_gguf(small_mixture(shape), GgufTypes(type), 3, folder.path() / "m.gguf");
      QuantizedExperts single(folder.path() / "m.gguf", 1);
      const std::vector<float> cold = single.run({kTokens}, 0);
      ASSERT_EQ(cold.size(), kTokens * kVocab);
      for (const float logit : cold) ASSERT_TRUE(std::isfinite(logit));
      const auto expect_the_same = [&](QuantizedExperts& model, const std::vector<std::size_t>& cuts,
                                       std::size_t strangers) {
        const std::vector<float> other = model.run(cuts, strangers);
        ASSERT_EQ(other.size(), cold.size());
        EXPECT_EQ(std::memcmp(other.data(), cold.data(), cold.size() * sizeof(float)), 0)
            << cuts.size() << " slices with " << strangers << " strangers";
      };
      expect_the_same(single, one_by_one, 0);
      expect_the_same(single, {1, 8, 9, kTokens}, 4);
      QuantizedExperts team(folder.path() / "m.gguf", 2);
      expect_the_same(team, {kTokens}, 1);
      expect_the_same(team, {1, 15, kTokens}, 3);
    }
  }
}

}  // namespace
}  // namespace reprise::tools
