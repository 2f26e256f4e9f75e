#pragma once
// One sequence on one model, without actors: the smallest way through models and gpu, for the commands that
// answer one prompt.
//
// Threading: one thread.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/model.h"
#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

/// "1 2 3", commas allowed. Throws UsageError naming --tokens.
std::vector<TokenId> parse_token_ids(const std::string& text);

class SingleSequence {
 public:
  /// Reads all weights once, so that a broken one is found before it is computed with. Throws UsageError,
  /// models::LoadError.
  explicit SingleSequence(const EngineFlags& flags);

  models::Model& model() { return *model_; }

  /// Begins anew with room for `tokens`. Throws UsageError if the model was not made for so many.
  void begin(std::size_t tokens);

  /// Appends tokens and calls `row(logits)` for the last, or with `all` for each, in order. The first call is
  /// the prompt; behind it tokens are decoded, one a call. Throws UsageError for an id outside the
  /// vocabulary.
  template <class Row>
  void append(std::span<const TokenId> tokens, bool all, Row row) {
    check(tokens);
    const models::Phase phase =
        std::exchange(begun_, true) ? models::Phase::kDecode : models::Phase::kPrefill;
    while (!tokens.empty()) {
      const std::size_t count = std::min(
          tokens.size(), phase == models::Phase::kDecode && !model_->rules().phases_mix ? 1 : kSliceTokens);
      const bool last = count == tokens.size();
      const models::Slice slice{.sequence = &*sequence_,
                                .tokens = tokens.first(count),
                                .logits = all    ? models::Slice::Logits::kAll
                                          : last ? models::Slice::Logits::kLast
                                                 : models::Slice::Logits::kNone,
                                .adapter = adapter_};
      const std::span<const float> logits = model_->forward({&slice, 1}, phase);
      const std::size_t vocab = model_->config().vocab;
      for (std::size_t i = 0; i < logits.size(); i += vocab) row(logits.subspan(i, vocab));
      tokens = tokens.subspan(count);
    }
  }

 private:
  static constexpr std::size_t kSliceTokens = 256;  // bounds the activations; on every grid

  void check(std::span<const TokenId> tokens) const;

  std::unique_ptr<models::Device> device_;
  std::unique_ptr<models::Model> model_;
  std::unique_ptr<gpu::StateStore> store_;
  std::optional<gpu::Sequence> sequence_;
  bool begun_ = false;
  models::AdapterKey adapter_ = 0;  // of the flags; 0: none
};

}  // namespace reprise::tools
