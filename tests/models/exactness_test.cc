// Exactness: the logits after a token, and the state, depend on the tokens alone, bit for bit. Compared by
// memcmp: a cold run in one slice, against slicing at every cut, token by token, restoring from a snapshot,
// batching with strangers, and other numbers of threads.

#include <algorithm>
#include <cstring>
#include <random>

#include "models/model.h"
#include "tests/models/oracle.h"

namespace reprise::models {
namespace {

using gpu::Compute;
using gpu::KvType;
using gpu::Sequence;

struct Setting {
  const char* family;
  Compute compute;
  KvType kv;
};

class Exactness : public testing::TestWithParam<Setting> {
 protected:
  static constexpr std::size_t kLength = 200;

  void SetUp() override {
    model_ = load(threads_);
    store_ = std::make_unique<gpu::StateStore>(model_->state().sizes(),
                                               gpu::StateBounds{.pages = 400, .slots = 64});
    tokens_ = random_tokens(kLength, 1);
    Sequence cold = open(kLength);
    reference_ = run(cold, tokens_);
    reference_state_ = state_of(cold);
  }

  std::unique_ptr<Model> load(gpu::Threads& threads) const {
    const std::filesystem::path folder =
        std::filesystem::path(REPRISE_SOURCE_DIR "/tests/data/models") / GetParam().family;
    return Model::load(folder, {.compute = GetParam().compute, .kv = GetParam().kv}, threads);
  }

  std::vector<TokenId> random_tokens(std::size_t count, unsigned seed) const {
    std::mt19937 random(seed);
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random() % model_->config().vocab);
    return tokens;
  }

  Sequence open(std::size_t room) {
    std::optional<Sequence> sequence = store_->open();
    EXPECT_TRUE(sequence.has_value() && sequence->reserve(room));
    return std::move(*sequence);
  }

  /// Logits of every token.
  std::vector<float> run(Sequence& sequence, std::span<const TokenId> tokens) {
    return run_on(*model_, sequence, tokens);
  }
  static std::vector<float> run_on(Model& model, Sequence& sequence, std::span<const TokenId> tokens) {
    const Slice slice{.sequence = &sequence, .tokens = tokens, .logits = Slice::Logits::kAll};
    const std::span<const float> logits = model.forward({&slice, 1});
    return {logits.begin(), logits.end()};
  }

  /// The slot, and K and V of every stored token.
  std::vector<std::byte> state_of(const Sequence& sequence) const {
    const std::byte* slot = sequence.slot_data();
    std::vector<std::byte> bytes(slot, slot + model_->state().sizes().slot_bytes);
    const auto attention = parts_of<AttentionSpec>(model_->config().layers);
    const std::vector<StateLayout::Field>& fields = model_->state().per_token();  // K and V of each in turn
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::size_t heads = attention[i / 2]->kv_heads;
      const std::size_t head_bytes = fields[i].bytes / heads;
      for (std::size_t t = 0; t < sequence.stored(); ++t) {
        const std::byte* page = sequence.page_data(t / gpu::kPageTokens) + fields[i].offset;
        for (std::size_t h = 0; h < heads; ++h) {
          const std::byte* from = page + (h * gpu::kPageTokens + t % gpu::kPageTokens) * head_bytes;
          bytes.insert(bytes.end(), from, from + head_bytes);
        }
      }
    }
    return bytes;
  }

  /// `logits` are those of tokens first, first + 1, ...
  testing::AssertionResult equals_reference(const std::vector<float>& logits, std::size_t first) const {
    const std::size_t vocab = model_->config().vocab;
    if (first * vocab + logits.size() > reference_.size())
      return testing::AssertionFailure() << "too many logits";
    if (std::memcmp(logits.data(), reference_.data() + first * vocab, logits.size() * sizeof(float)) == 0) {
      return testing::AssertionSuccess();
    }
    return testing::AssertionFailure() << "logits differ from the cold run's, from token " << first;
  }
  testing::AssertionResult ends_as_reference(const Sequence& sequence) const {
    if (state_of(sequence) == reference_state_) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "the state differs from the cold run's";
  }

  std::span<const TokenId> from(std::size_t begin, std::size_t end = kLength) const {
    return std::span(tokens_).subspan(begin, end - begin);
  }

  gpu::Threads threads_{2};
  std::unique_ptr<Model> model_;
  std::unique_ptr<gpu::StateStore> store_;
  std::vector<TokenId> tokens_;
  std::vector<float> reference_;
  std::vector<std::byte> reference_state_;
};

TEST_P(Exactness, EveryCutSlicedAndRestored) {
  for (std::size_t cut = 1; cut < kLength; ++cut) {
    SCOPED_TRACE("cut at " + std::to_string(cut));
    Sequence source = open(kLength);
    ASSERT_TRUE(equals_reference(run(source, from(0, cut)), 0));
    std::optional<gpu::Snapshot> snapshot = store_->capture(source);
    ASSERT_TRUE(snapshot.has_value());
    ASSERT_TRUE(equals_reference(run(source, from(cut)), cut)) << "capturing touched its source";
    ASSERT_TRUE(ends_as_reference(source));
    for (int time = 0; time < 2; ++time) {  // twice: restoring must not touch the snapshot
      std::optional<Sequence> restored = store_->restore(*snapshot).sequence;
      ASSERT_TRUE(restored.has_value() && restored->reserve(kLength - cut));
      ASSERT_EQ(restored->stored(), cut);
      ASSERT_TRUE(equals_reference(run(*restored, from(cut)), cut));
      ASSERT_TRUE(ends_as_reference(*restored));
    }
  }
}

TEST_P(Exactness, TokenByToken) {
  Sequence sequence = open(kLength);
  for (std::size_t t = 0; t < kLength; ++t) ASSERT_TRUE(equals_reference(run(sequence, from(t, t + 1)), t));
  EXPECT_TRUE(ends_as_reference(sequence));
}

TEST_P(Exactness, BatchedWithStrangers) {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    Sequence ours = open(kLength);
    std::vector<Sequence> strangers;
    for (int i = 0; i < 5; ++i) strangers.push_back(open(gpu::kPageTokens * 4));
    for (std::size_t done = 0; done < kLength;) {
      const std::size_t count = std::min<std::size_t>(kLength - done, 1 + random() % 70);
      std::vector<std::vector<TokenId>> texts;
      for (std::size_t i = 0; i < strangers.size(); ++i)
        texts.push_back(random_tokens(1 + random() % 3, random()));
      std::vector<Slice> batch;
      const std::size_t place = random() % (strangers.size() + 1);
      for (std::size_t i = 0; i <= strangers.size(); ++i) {
        if (i == place) batch.push_back({&ours, from(done, done + count), Slice::Logits::kAll});
        if (i < strangers.size()) batch.push_back({&strangers[i], texts[i], Slice::Logits::kNone});
      }
      const std::span<const float> logits = model_->forward(batch);
      ASSERT_TRUE(equals_reference({logits.begin(), logits.end()}, done));
      done += count;
    }
    ASSERT_TRUE(ends_as_reference(ours));
  }
}

TEST_P(Exactness, OtherNumbersOfThreads) {
  for (const unsigned count : {1U, 3U, 5U}) {
    gpu::Threads threads(count);
    const std::unique_ptr<Model> model = load(threads);
    Sequence sequence = open(kLength);
    EXPECT_TRUE(equals_reference(run_on(*model, sequence, tokens_), 0)) << count << " threads";
    EXPECT_TRUE(ends_as_reference(sequence));
  }
}

TEST_P(Exactness, LongerOnesAtRandom) {
  std::mt19937 random(9);
  const std::size_t length = 1500;
  const std::vector<TokenId> tokens = random_tokens(length, 2);
  Sequence cold = open(length);
  const std::vector<float> reference = run(cold, tokens);
  const std::vector<std::byte> end = state_of(cold);
  const std::size_t vocab = model_->config().vocab;
  for (int round = 0; round < 6; ++round) {
    const std::size_t cut = 200 + random() % (length - 201);
    Sequence source = open(length);
    run(source, std::span(tokens).first(cut));
    std::optional<gpu::Snapshot> snapshot = store_->capture(source);
    std::optional<Sequence> restored = store_->restore(*snapshot).sequence;
    ASSERT_TRUE(restored.has_value() && restored->reserve(length - cut));
    const std::vector<float> logits = run(*restored, std::span(tokens).subspan(cut));
    EXPECT_EQ(std::memcmp(logits.data(), reference.data() + cut * vocab, logits.size() * sizeof(float)), 0);
    EXPECT_EQ(state_of(*restored), end);
  }
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const char* family : {"qwen3_5_text", "qwen3_next", "qwen3", "llama"}) {
    all.push_back({family, Compute::kF32, KvType::kF32});
    all.push_back({family, Compute::kAuto, KvType::kBF16});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Families, Exactness, testing::ValuesIn(settings()), [](const auto& info) {
  return std::string(info.param.family) + (info.param.compute == Compute::kF32 ? "_f32" : "_auto");
});

}  // namespace
}  // namespace reprise::models
