#pragma once
// Sampling settings: SamplingOverrides, the optional ones of a client or a model's authors, and
// SamplingParams, the resolved ones. models/sampling/sampler.h has the order in which they apply.
//
// Any combination can be stored; validate() reports invalid fields. A Sampler requires valid parameters.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/token.h"

namespace reprise {

/// Max alternatives a request may ask for at each position.
inline constexpr int kMaxLogprobs = 20;

struct LogitBias {
  TokenId token = 0;
  float bias = 0;  // added to the logit: -100 strongly discourages, -infinity bans

  bool operator==(const LogitBias&) const = default;
};

/// An invalid field, by its name in SamplingParams.
struct ParamError {
  std::string field;
  std::string reason;

  /// Returns e.g. "top_p: must lie between 0 and 1, is 1.5".
  std::string describe() const { return field + ": " + reason; }
};

/// The defaults sample from the model's own distribution: no filter, no penalty.
struct SamplingParams {
  double temperature = 1;  // 0 to 100; 0: greedy, ignores the filters below
  std::int64_t top_k = 0;  // keep the k most probable; 0 or -1: all
  double top_p = 1;        // keep the smallest set with this cumulative probability; 1: all
  double min_p = 0;        // keep tokens at least this probable relative to the best; 0: all

  /// 0 < value <= 100; positive logits are divided by it, others multiplied; 1: off. Applies to the last n
  /// tokens of prompt and output; n <= 0: all.
  double repetition_penalty = 1;
  std::int64_t repetition_last_n = 0;

  double presence_penalty = 0;   // -2 to 2; subtracted once from tokens in the output
  double frequency_penalty = 0;  // -2 to 2; subtracted for each occurrence in the output

  /// models/sampling/candidates.h defines these. The filters apply after min_p, except where noted.
  double top_n_sigma = 0;      // 0: off; before top_k
  double typical_p = 1;        // 1: off
  double xtc_probability = 0;  // 0: off
  double xtc_threshold = 0.1;
  double dry_multiplier = 0;  // 0: off; a penalty, applied with those above
  double dry_base = 1.75;
  std::int64_t dry_allowed_length = 2;
  std::int64_t dry_penalty_last_n = -1;  // tokens of prompt and output considered; -1: all, 0: none
  std::vector<TokenId> dry_breakers{};   // sorted

  /// No token of `ends` is chosen while the output is shorter than this.
  std::uint32_t min_tokens = 0;
  std::vector<TokenId> ends{};

  std::vector<LogitBias> logit_bias{};  // biases of a repeated token add up

  std::uint64_t seed = 0;  // required: the caller chooses one if the request has none

  /// Number of alternatives reported per position in addition to the chosen token, 0 to kMaxLogprobs;
  /// nullopt: no logprobs.
  std::optional<int> logprobs{};
  bool logprobs_of_draw = false;  // logprobs after filtering instead of the model's distribution

  bool operator==(const SamplingParams&) const = default;

  /// Returns the invalid fields for a vocabulary of this size, in the order above; empty if all are valid.
  std::vector<ParamError> validate(std::size_t vocab) const;
};

/// Optional overrides of SamplingParams, from a request or from the model files.
struct SamplingOverrides {
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

  bool operator==(const SamplingOverrides&) const = default;
};

void overlay(SamplingOverrides& wishes, const SamplingOverrides& over);

/// Combines the two with the defaults: the client's values first, then the model's.
SamplingParams resolve(const SamplingOverrides& client, const SamplingOverrides& model);

}  // namespace reprise
