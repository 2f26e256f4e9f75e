#pragma once
// How a request wants its tokens chosen, as the client said it. What is not set comes from the model's own
// generation settings, or else from the defaults of the engine; the engine checks the ranges.
//
// Threading: a plain value.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/token.h"

namespace reprise::protocol {

struct Sampling {
  std::optional<double> temperature{};
  std::optional<std::int64_t> top_k{};
  std::optional<double> top_p{};
  std::optional<double> min_p{};
  std::optional<double> repetition_penalty{};
  std::optional<std::int64_t> repetition_last_n{};
  std::optional<double> presence_penalty{};
  std::optional<double> frequency_penalty{};
  std::vector<std::pair<TokenId, float>> logit_bias{};
  std::optional<std::uint64_t> seed{};  // none: one is drawn for the request
  std::optional<int> logprobs{};        // alternatives to report for each token; none: no logprobs
};

}  // namespace reprise::protocol
