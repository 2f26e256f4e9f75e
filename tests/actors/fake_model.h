#pragma once
// A model without files, on the host. A state's slot holds one number, which each token updates; the next
// token is this number modulo the vocabulary. So states of the same tokens give the same reply, and others do
// not.

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "models/model.h"

namespace reprise::actors {

/// Controls the model's computing from a test's thread.
class FakeControl {
 public:
  /// Makes steps wait until release().
  void hold() { set(true); }
  void release() { set(false); }
  /// Lets the waiting step continue, and no other.
  void let_one_go() {
    const std::lock_guard lock(mutex_);
    ++let_go_;
    changed_.notify_all();
  }
  std::uint32_t steps() const { return steps_; }
  /// Returns the tokens of each slice, for each of the first kRecorded steps.
  std::vector<std::vector<std::size_t>> recorded() {
    const std::lock_guard lock(mutex_);
    return recorded_;
  }
  /// While set, loads fail, or wait; each is counted.
  std::atomic<bool> refuse_to_load{false};
  std::atomic<bool> hold_loads{false};
  std::atomic<std::uint32_t> loads{0};

  void begin_step(std::span<const models::Slice> slices) {
    std::unique_lock lock(mutex_);
    ++steps_;
    if (recorded_.size() < kRecorded) {
      std::vector<std::size_t>& step = recorded_.emplace_back();
      for (const models::Slice& slice : slices) step.push_back(slice.tokens.size());
    }
    changed_.wait(lock, [this] { return !held_ || let_go_ > 0; });
    if (held_) --let_go_;
  }

 private:
  void set(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  static constexpr std::size_t kRecorded = 1000;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<std::size_t>> recorded_;  // guarded by mutex_
  bool held_ = false;                               // guarded by mutex_
  std::uint32_t let_go_ = 0;                        // guarded by mutex_
  std::atomic<std::uint32_t> steps_{0};
};

class FakeModel : public models::Model {
 public:
  static constexpr std::uint32_t kVocab = 64;
  static constexpr std::uint64_t kPageBytes = gpu::kPageTokens * 4;
  static constexpr std::uint64_t kSlotBytes = 64;

  explicit FakeModel(std::shared_ptr<FakeControl> control)
      : Model(models::ModelFiles::without_files(config_of()), {}), control_(std::move(control)) {
    state_.add_per_token("token", sizeof(float));
    state_.add_per_sequence("sum", sizeof(float));
  }

  std::span<const float> forward(std::span<const models::Slice> slices, models::Phase) override {
    control_->begin_step(slices);
    logits_.clear();
    for (const models::Slice& slice : slices) {
      float sum = 0;
      std::memcpy(&sum, slice.sequence->slot_data(), sizeof sum);
      for (std::size_t i = 0; i < slice.tokens.size(); ++i) {
        const std::size_t at = slice.sequence->stored() + i;
        const auto token = static_cast<float>(slice.tokens[i]);
        std::memcpy(slice.sequence->page_data(at / gpu::kPageTokens) + at % gpu::kPageTokens * 4, &token, 4);
        sum = next(sum, slice.tokens[i]);
      }
      std::memcpy(slice.sequence->slot_data(), &sum, sizeof sum);
      slice.sequence->advance(slice.tokens.size());
      if (slice.logits == models::Slice::Logits::kNone) continue;
      std::array<float, kVocab> row{};
      row[static_cast<std::size_t>(reply(sum))] = 10;
      logits_.insert(logits_.end(), row.begin(), row.end());
    }
    return logits_;
  }
  models::ModelRules rules() const override { return {}; }
  std::string arithmetic() const override { return "fake"; }

  static TokenList reply_to(const TokenList& prompt, std::size_t count) {
    float sum = 0;
    for (const TokenId token : prompt) sum = next(sum, token);
    TokenList tokens;
    while (tokens.size() < count) {
      tokens.push_back(reply(sum));
      sum = next(sum, tokens.back());
    }
    return tokens;
  }

 private:
  static models::ModelConfig config_of() {
    models::ModelConfig config;
    config.architecture = "fake";
    config.vocab = kVocab;
    config.context_length = 100'000;
    return config;
  }
  static float next(float sum, TokenId token) {
    return static_cast<float>((static_cast<std::uint32_t>(sum) * 31 + static_cast<std::uint32_t>(token) + 7) %
                              65'521);
  }
  static TokenId reply(float sum) { return static_cast<TokenId>(static_cast<std::uint32_t>(sum) % kVocab); }

  const std::shared_ptr<FakeControl> control_;
  std::vector<float> logits_;
};

inline auto fake_models(const std::shared_ptr<FakeControl>& control) {
  return [control](const std::string&) -> std::unique_ptr<models::Model> {
    ++control->loads;
    while (control->hold_loads) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (control->refuse_to_load) throw std::runtime_error("the test refuses to load");
    return std::make_unique<FakeModel>(control);
  };
}

}  // namespace reprise::actors
