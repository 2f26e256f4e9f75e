#pragma once
// A model on a CPU or GPU with a state store, and the calls of exactness tests.
//
// Prefill slices begin at multiples of the grid, which is 1 on a CPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "models/model.h"

namespace reprise::models::test {

class ModelRuns {
 public:
  /// `owner` keeps what the model needs alive. `max_rows`: maximum rows of a prefill step.
  ModelRuns(std::shared_ptr<void> owner, std::unique_ptr<Model> model, const gpu::StateBounds& bounds,
            std::size_t grid = 1, std::size_t max_rows = std::numeric_limits<std::size_t>::max())
      : owner_(std::move(owner)),
        model_(std::move(model)),
        store_(std::make_unique<gpu::StateStore>(model_->state().sizes(), bounds)),
        grid_(grid),
        max_rows_(max_rows) {}

  Model& model() const { return *model_; }
  const StateLayout& state() const { return model_->state(); }
  gpu::StateStore& store() const { return *store_; }
  std::size_t vocab() const { return model_->config().vocab; }
  std::size_t grid() const { return grid_; }

  std::vector<TokenId> random_tokens(std::size_t count, unsigned seed) const {
    std::mt19937 random(seed);
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random() % vocab());
    return tokens;
  }

  gpu::Sequence open(std::size_t capacity) const {
    std::optional<gpu::Sequence> sequence = store_->open();
    EXPECT_TRUE(sequence.has_value() && sequence->reserve(capacity));
    return std::move(*sequence);
  }
  gpu::Snapshot capture(const gpu::Sequence& sequence) const {
    std::optional<gpu::Snapshot> snapshot = store_->capture(sequence);
    EXPECT_TRUE(snapshot.has_value());
    return std::move(*snapshot);
  }
  gpu::Sequence restore(const gpu::Snapshot& snapshot, std::size_t capacity) const {
    std::optional<gpu::Sequence> sequence = store_->restore(snapshot).sequence;
    EXPECT_TRUE(sequence.has_value() && sequence->stored() == snapshot.stored() &&
                sequence->reserve(capacity));
    return std::move(*sequence);
  }
  /// Simulates preemption: saves the sequence, lets others use its memory, and loads it again.
  gpu::Sequence saved_and_loaded(gpu::Sequence sequence, std::size_t capacity) const {
    const gpu::SavedSequence saved = store_->save(sequence);
    { const gpu::Sequence gone = std::move(sequence); }
    {
      gpu::Sequence other = open(2 * gpu::kPageTokens);
      prefill(other, random_tokens(2 * gpu::kPageTokens, 77), Slice::Logits::kNone);
    }
    std::optional<gpu::Sequence> loaded = store_->load(saved);
    EXPECT_TRUE(loaded.has_value() && loaded->reserve(capacity));
    return std::move(*loaded);
  }

  /// Prefills in slices; returns the logits asked for.
  std::vector<float> prefill(gpu::Sequence& sequence, std::span<const TokenId> tokens,
                             Slice::Logits wanted = Slice::Logits::kAll) const {
    std::vector<float> all;
    while (!tokens.empty()) {
      const std::size_t count = std::min(tokens.size(), max_rows_);
      const bool asks = wanted == Slice::Logits::kAll || count == tokens.size();
      const Slice slice{.sequence = &sequence,
                        .tokens = tokens.first(count),
                        .logits = asks ? wanted : Slice::Logits::kNone};
      const std::span<const float> logits = model_->forward({&slice, 1}, Phase::kPrefill);
      all.insert(all.end(), logits.begin(), logits.end());
      tokens = tokens.subspan(count);
    }
    return all;
  }
  std::vector<float> decode(gpu::Sequence& sequence, std::span<const TokenId> tokens) const {
    std::vector<float> all;
    for (const TokenId& token : tokens) {
      const Slice slice{.sequence = &sequence, .tokens = {&token, 1}};
      const std::span<const float> logits = model_->forward({&slice, 1}, Phase::kDecode);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  }

  /// Bytes of the slot and of all stored tokens in the pages.
  std::vector<std::byte> state_of(const gpu::Sequence& sequence) const {
    const gpu::StateSizes sizes = state().sizes();
    std::vector<std::byte> bytes = bytes_at(sequence.slot_data(), sizes.slot_bytes);
    if (sizes.page_bytes == 0) return bytes;
    const auto attention = parts_of<AttentionSpec>(model_->config().layers);
    // latent attention has one
    const std::size_t heads = attention.empty() ? 1 : attention.front()->kv_heads;
    for (std::size_t first = 0; first < sequence.stored(); first += gpu::kPageTokens) {
      const std::vector<std::byte> page =
          bytes_at(sequence.page_data(first / gpu::kPageTokens), sizes.page_bytes);
      const std::size_t tokens = std::min(gpu::kPageTokens, sequence.stored() - first);
      for (const StateLayout::Field& field : state().per_token()) {
        const std::size_t head_bytes = field.bytes / heads;
        for (std::size_t head = 0; head < heads; ++head) {
          const std::byte* from = page.data() + field.offset + head * gpu::kPageTokens * head_bytes;
          bytes.insert(bytes.end(), from, from + tokens * head_bytes);
        }
      }
    }
    return bytes;
  }
  std::vector<std::byte> bytes_at(const std::byte* from, std::size_t count) const {
    std::vector<std::byte> bytes(count);
    if (count != 0) store_->memory().to_host(bytes.data(), from, count);
    return bytes;
  }

 private:
  std::shared_ptr<void> owner_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<gpu::StateStore> store_;
  std::size_t grid_;
  std::size_t max_rows_;
};

/// Compares `logits` with the rows first, first + 1, ... of `whole`, bit for bit.
inline testing::AssertionResult same_logits(std::span<const float> logits, std::span<const float> whole,
                                            std::size_t first, std::size_t vocab) {
  if (first * vocab + logits.size() > whole.size()) return testing::AssertionFailure() << "too many logits";
  for (std::size_t at = 0; at < logits.size(); at += vocab) {
    if (std::memcmp(logits.data() + at, whole.data() + first * vocab + at, vocab * sizeof(float)) != 0) {
      return testing::AssertionFailure()
             << "logits of token " << first + at / vocab << " differ from the cold run's";
    }
  }
  return testing::AssertionSuccess();
}

/// A cold run of a prompt in one slice: the reference for all other ways.
class ColdRun {
 public:
  /// `more`: number of tokens to decode after the prompt.
  ColdRun(const ModelRuns& runs, std::size_t length, unsigned seed, std::size_t more = 0)
      : runs_(runs),
        tokens_(runs.random_tokens(length, seed)),
        sequence_(runs.open(length + more)),
        logits_(runs.prefill(sequence_, tokens_)),
        state_(runs.state_of(sequence_)) {}

  const ModelRuns& runs() const { return runs_; }
  std::size_t length() const { return tokens_.size(); }
  std::span<const TokenId> from(std::size_t begin) const { return std::span(tokens_).subspan(begin); }
  std::span<const TokenId> from(std::size_t begin, std::size_t end) const {
    return std::span(tokens_).subspan(begin, end - begin);
  }

  /// Compares with the logits after tokens first, first + 1, ...
  testing::AssertionResult has(std::span<const float> logits, std::size_t first) const {
    return same_logits(logits, logits_, first, runs_.vocab());
  }
  const std::vector<std::byte>& state() const { return state_; }
  std::vector<float> decode(std::span<const TokenId> tokens) { return runs_.decode(sequence_, tokens); }
  testing::AssertionResult ends_as(const gpu::Sequence& sequence) const {
    const std::vector<std::byte> state = runs_.state_of(sequence);
    if (state == state_) return testing::AssertionSuccess();
    const auto at = std::mismatch(state.begin(), state.end(), state_.begin(), state_.end()).first;
    return testing::AssertionFailure()
           << "the state differs from the cold run's at byte " << at - state.begin() << " of " << state.size()
           << "; the slot has " << runs_.state().sizes().slot_bytes;
  }

 private:
  const ModelRuns& runs_;
  std::vector<TokenId> tokens_;
  gpu::Sequence sequence_;
  std::vector<float> logits_;
  std::vector<std::byte> state_;
};

}  // namespace reprise::models::test
