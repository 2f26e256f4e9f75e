#pragma once
// How tokens are chosen: what a client or a model's authors wish (SamplingWishes), and what comes of it
// (SamplingParams). models/sampling/sampler.h says in which order the parameters are applied.
//
// Any combination of values can be written down; validate() tells which fields make no sense. A Sampler is
// made from valid parameters only.
//
// Threading: plain values.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/token.h"

namespace reprise {

/// Most alternatives a request may ask for at each position.
inline constexpr int kMostLogprobs = 20;

struct LogitBias {
  TokenId token = 0;
  float bias = 0;  // added to the logit as it is: -100 is a strong push and no ban; -infinity is a ban

  bool operator==(const LogitBias&) const = default;
};

/// A field that makes no sense, by the name it has in SamplingParams.
struct ParamError {
  std::string field;
  std::string reason;

  /// "top_p: must lie between 0 and 1, is 1.5"
  std::string describe() const { return field + ": " + reason; }
};

/// The defaults are the model's own distribution: no filter, no penalty.
struct SamplingParams {
  double temperature = 1;  // 0 to 100; 0 is greedy: the best token, whatever the filters below
  std::int64_t top_k = 0;  // keep the k best; 0 or -1: all
  double top_p = 1;        // keep the fewest best that hold this share of the mass, at least one; 1: all
  double min_p = 0;        // keep those at least this likely, relative to the best; 0: all

  /// Above 0, to 100; divides logits above 0, multiplies the others; 1: none. It looks at the last n tokens
  /// of prompt and output; 0 or less: at all.
  double repetition_penalty = 1;
  std::int64_t repetition_last_n = 0;

  double presence_penalty = 0;   // -2 to 2; subtracted once from a token that is in the output
  double frequency_penalty = 0;  // -2 to 2; subtracted for each time a token is in the output

  /// models/sampling/candidates.h says what these do, in the order in which they are applied behind min_p.
  double top_n_sigma = 0;      // 0: off; before top_k
  double typical_p = 1;        // 1: off
  double xtc_probability = 0;  // 0: off
  double xtc_threshold = 0.1;
  double dry_multiplier = 0;  // 0: off; a penalty, like those above
  double dry_base = 1.75;
  std::int64_t dry_allowed_length = 2;
  std::int64_t dry_penalty_last_n = -1;  // tokens of prompt and output that it looks at; -1: all, 0: none
  std::vector<TokenId> dry_breakers{};   // sorted

  /// While the output is shorter, none of `ends` is chosen.
  std::uint32_t min_tokens = 0;
  std::vector<TokenId> ends{};

  std::vector<LogitBias> logit_bias{};  // a token that is there twice gets both

  std::uint64_t seed = 0;  // a caller whose request has none must find one itself

  /// How many alternatives to report at each position, 0 to kMostLogprobs, beside the chosen token's logprob;
  /// nothing: no logprobs at all.
  std::optional<int> logprobs{};
  bool logprobs_of_draw = false;  // of what is left to choose from, in place of the model's own distribution

  bool operator==(const SamplingParams&) const = default;

  /// Every field that makes no sense for a vocabulary of this size, in the order above; empty: all is well.
  std::vector<ParamError> validate(std::size_t vocab) const;
};

/// What somebody wishes: a client in its request, or a model's authors in its files. What is not set is left to
/// whoever is asked next. The fields mean what they mean in SamplingParams.
struct SamplingWishes {
  std::optional<double> temperature{};
  std::optional<std::int64_t> top_k{};
  std::optional<double> top_p{};
  std::optional<double> min_p{};
  std::optional<double> repetition_penalty{};
  std::optional<std::int64_t> repetition_last_n{};
  std::optional<double> presence_penalty{};
  std::optional<double> frequency_penalty{};
  std::optional<double> top_n_sigma{};
  std::optional<double> typical_p{};
  std::optional<double> xtc_probability{};
  std::optional<double> xtc_threshold{};
  std::optional<double> dry_multiplier{};
  std::optional<double> dry_base{};
  std::optional<std::int64_t> dry_allowed_length{};
  std::optional<std::int64_t> dry_penalty_last_n{};
  std::vector<LogitBias> logit_bias{};
  std::optional<std::uint64_t> seed{};
  std::optional<int> logprobs{};

  bool operator==(const SamplingWishes&) const = default;
};

/// What `over` wishes for counts in `wishes` from now on.
void overlay(SamplingWishes& wishes, const SamplingWishes& over);

/// The client's wishes; where they say nothing the model's; where those say nothing the defaults.
SamplingParams resolve(const SamplingWishes& client, const SamplingWishes& model);

}  // namespace reprise
