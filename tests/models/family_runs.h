#pragma once
// A family's sample in one setting, loaded, with sequences to run it on: what tests of bits compare.
//
// Threading: one thread, and the team that the model computes on.

#include <gtest/gtest.h>

#include <algorithm>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "models/model.h"
#include "tests/models/family_table.h"
#include "tests/sanitized.h"

namespace reprise::models::test {

/// As the name of a test may have it.
inline std::string test_name_of(gpu::Isa isa) {
  std::string name(name_of(isa));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

struct FamilySetting {
  FamilySample row;
  ComputeOptions options;

  bool is_best_isa() const { return options.isa == gpu::best_isa(); }
  std::string name() const {
    std::string name = row.sample;
    name.append(1, '_').append(test_name_of(options.isa));
    name.append(options.compute == gpu::Compute::kF32 ? "_f32" : "_auto");
    if (is_quantised(options.kv)) name.append(1, '_').append(name_of(options.kv));
    return name;
  }
  friend std::ostream& operator<<(std::ostream& out, const FamilySetting& setting) {
    return out << setting.name();
  }
};

/// With keys and values in blocks: attention alone, beside recurrent layers, where layers keep them otherwise.
inline std::vector<gpu::KvType> block_types_of(const FamilySample& row) {
  if (row.sample == "llama" || row.sample == "qwen3_5_text") return {gpu::KvType::kInt8, gpu::KvType::kInt4};
  if (row.sample == "kimi_linear" || row.sample == "recurrent_gemma") return {gpu::KvType::kInt8};
  return {};
}

/// Every family, with every instruction set, in both settings, some with keys and values in blocks; under a sanitizer with the machine's best, in the default.
inline std::vector<FamilySetting> family_settings() {
  std::vector<FamilySetting> all;
  for (const FamilySample& row : family_samples()) {
    if (kSanitized) {
      all.push_back(
          {row, {.compute = gpu::Compute::kAuto, .kv = gpu::KvType::kBF16, .isa = gpu::best_isa()}});
      continue;
    }
    for (const gpu::Isa isa : different_isas()) {
      all.push_back({row, {.compute = gpu::Compute::kF32, .kv = gpu::KvType::kF32, .isa = isa}});
      all.push_back({row, {.compute = gpu::Compute::kAuto, .kv = gpu::KvType::kBF16, .isa = isa}});
    }
    for (const gpu::KvType kv : block_types_of(row)) {
      all.push_back({row, {.compute = gpu::Compute::kAuto, .kv = kv, .isa = gpu::best_isa()}});
    }
  }
  return all;
}

class FamilyRuns {
 public:
  FamilyRuns(const FamilySetting& setting, unsigned threads, gpu::StateBounds bounds)
      : threads_(threads),
        model_(Model::load(sample_checkpoint(setting.row), setting.options, threads_)),
        store_(model_->state().sizes(), bounds) {}

  Model& model() { return *model_; }
  const StateLayout& state() const { return model_->state(); }
  gpu::StateStore& store() { return store_; }
  std::size_t vocab() const { return model_->config().vocab; }

  std::vector<TokenId> random_tokens(std::size_t count, unsigned seed) const {
    std::mt19937 random(seed);
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random() % vocab());
    return tokens;
  }

  gpu::Sequence open(std::size_t room) {
    std::optional<gpu::Sequence> sequence = store_.open();
    EXPECT_TRUE(sequence.has_value() && sequence->reserve(room));
    return std::move(*sequence);
  }
  gpu::Snapshot capture(const gpu::Sequence& sequence) {
    std::optional<gpu::Snapshot> snapshot = store_.capture(sequence);
    EXPECT_TRUE(snapshot.has_value());
    return std::move(*snapshot);
  }
  gpu::Sequence restore(const gpu::Snapshot& snapshot, std::size_t room) {
    std::optional<gpu::Sequence> sequence = store_.restore(snapshot).sequence;
    EXPECT_TRUE(sequence.has_value() && sequence->stored() == snapshot.stored() && sequence->reserve(room));
    return std::move(*sequence);
  }

  /// Logits of every token.
  std::vector<float> run(gpu::Sequence& sequence, std::span<const TokenId> tokens) {
    const Slice slice{.sequence = &sequence, .tokens = tokens, .logits = Slice::Logits::kAll};
    const std::span<const float> logits = model_->forward({&slice, 1});
    return {logits.begin(), logits.end()};
  }

  /// The slot, and the pages that are full: places that no token has yet may hold anything.
  std::vector<std::byte> state_of(const gpu::Sequence& sequence) const {
    std::vector<std::byte> bytes;
    const auto add = [&](const std::byte* from, std::size_t size) {
      if (size != 0) bytes.insert(bytes.end(), from, from + size);
    };
    add(sequence.slot_data(), state().sizes().slot_bytes);
    for (std::size_t page = 0; page < sequence.stored() / gpu::kPageTokens; ++page) {
      add(sequence.page_data(page), state().sizes().page_bytes);
    }
    return bytes;
  }

 private:
  gpu::Threads threads_;
  std::unique_ptr<Model> model_;
  gpu::StateStore store_;
};

/// `logits` are those of tokens first, first + 1, ... of the whole.
inline testing::AssertionResult same_logits(const std::vector<float>& logits, const std::vector<float>& whole,
                                            std::size_t first, std::size_t vocab) {
  if (first * vocab + logits.size() > whole.size()) return testing::AssertionFailure() << "too many logits";
  if (std::memcmp(logits.data(), whole.data() + first * vocab, logits.size() * sizeof(float)) == 0) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "logits differ from the cold run's, from token " << first;
}

}  // namespace reprise::models::test
