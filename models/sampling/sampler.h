#pragma once
// Chooses the next token of one sequence from its logits.
//
// The steps, in this order:
//   0. mask                 tokens that the step's mask excludes are never chosen; no mask: all are allowed
//   1. bias                 logit += bias
//   2. repetition penalty   logit > 0 ? logit / p : logit * p, for tokens of prompt and output in the window
//   3. presence, frequency  logit -= presence + frequency * count, for tokens of the output
//      DRY                  logit -= multiplier * base^(length - allowed) for tokens that extend repetitions
//      min_tokens           tokens that end a reply are excluded until it has this many
//   4. temperature 0        chooses the best token, the lowest id among equals; ends here
//   5. temperature          logit /= temperature
//   6. top_n_sigma, top_k  7. top_p  8. min_p, typical_p, XTC    each on what the previous one kept
//                           (models/sampling/candidates.h)
//   9. draw                 the first token, in rank order, at which the cumulative mass exceeds u times the
//                           total; u is a uniform random number (models/sampling/noise.h)
// Rank order is by descending logit, equal logits by ascending token id.
//
// NaN and -infinity are never chosen. A logit of +infinity beats every finite one, and several are equally
// likely. If no candidate is left, the result is a SampleError.
//
// Logprobs are the log-softmax of the model's logits before all steps, unless the request wants those of the
// draw. So the chosen token's may be low, even -infinity, if the model gave +infinity to another token that a
// bias banned.
//
// The choice is a function of parameters, choice index, accepted tokens and logits, and the same on every
// machine (models/sampling/softmax.h). sample() changes nothing; accept() advances to the next step.
//
// Threading: const calls are thread-safe, each with its own scratch.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/sampling.h"
#include "base/token_mask.h"
#include "models/sampling/ranking.h"

namespace reprise::models {

struct TokenLogprob {
  TokenId token = 0;
  double logprob = 0;

  bool operator==(const TokenLogprob&) const = default;
};

struct Sampled {
  TokenId token = 0;
  std::optional<double> logprob{};  // of `token`, if the request asked for logprobs
  std::vector<TokenLogprob> top{};  // best tokens in rank order, without NaN and -infinity

  bool operator==(const Sampled&) const = default;
};

enum class SampleError : std::uint8_t {
  kNoLogits,     // model error: every logit is NaN or -infinity
  kAllBanned,    // request error: its biases and penalties leave no token
  kNoneAllowed,  // no token allowed by the mask is left
};

const char* to_string(SampleError error);

using SampleResult = std::variant<Sampled, SampleError>;

enum class TokenOrigin : std::uint8_t { kPrompt, kOutput };

/// The state of a sampler apart from its parameters, as snapshots keep it. It does not include the choice
/// index, so several choices can continue from one state. Its size grows with the number of distinct tokens
/// (with DRY, of all tokens), and only if the parameters have penalties.
struct SamplerState {
  struct Seen {
    std::uint64_t last = 0;     // `accepted` just after its last occurrence
    std::uint64_t outputs = 0;  // occurrences in the output

    bool operator==(const Seen&) const = default;
  };

  std::uint64_t step = 0;      // output tokens accepted
  std::uint64_t accepted = 0;  // prompt and output tokens accepted
  std::unordered_map<TokenId, Seen> seen{};
  std::vector<TokenId> history{};  // all tokens; only with DRY

  bool operator==(const SamplerState&) const = default;
};

/// Scratch buffers of sample(), to reuse per thread; carry nothing between calls.
struct SamplerScratch {
  std::vector<float> logits;        // after bias and penalties
  std::vector<RankedToken> ranked;  // the known part of the rank order
};

/// All inputs of a step's choice except the logits, including the random number, for a device that samples by
/// itself with the steps at the top of this file.
struct SamplePlan {
  /// For one token: logit += bias; then / penalty if above 0, else * penalty; then -= subtracted.
  struct Adjustment {
    TokenId token = 0;
    float bias = 0;
    float penalty = 1;
    float subtracted = 0;
  };
  double temperature = 1;  // 0: greedy
  std::int64_t top_k = 0;  // 0: unlimited
  double top_p = 1;
  double min_p = 0;
  double noise = 0;  // uniform in [0, 1)
  /// The slot that will hold the step's mask; null: all tokens are allowed.
  std::shared_ptr<const MaskSlot> masks{};
  std::uint64_t step = 0;
  std::vector<Adjustment> adjustments{};
};

class Sampler {
 public:
  /// `params` must be valid for this vocabulary. `choice` is the index among the n completions of a request.
  Sampler(SamplingParams params, std::size_t vocab, std::uint32_t choice = 0);

  /// Records a token. Call it for every prompt token in order, then for each output token.
  void accept(TokenId token, TokenOrigin origin);

  /// Chooses the token of the current step. `logits`: [vocab]; `mask`: the allowed tokens, null: all.
  SampleResult sample(std::span<const float> logits, SamplerScratch& scratch,
                      const TokenMask* mask = nullptr) const;

  /// Returns a plan for a device to make the same choice as sample(), up to rounding of the masses. Returns
  /// nullopt if logprobs are requested, if more than `max_adjustments` tokens have changed logits, or for
  /// filters that need all candidates: top_n_sigma, typical_p, XTC and DRY.
  std::optional<SamplePlan> plan(std::size_t max_adjustments) const;

  const SamplingParams& params() const { return params_; }
  std::uint32_t choice() const { return choice_; }
  const SamplerState& state() const { return state_; }

  /// Continues from the state of a sampler with the same parameters, and any choice index.
  void restore(SamplerState state) { state_ = std::move(state); }

 private:
  std::span<const float> adjusted(std::span<const float> logits, std::vector<float>& copy) const;
  struct Penalty {
    bool repeats;
    float repetition;
    float subtracted;
  };
  Penalty penalty_of(const SamplerState::Seen& seen) const;
  TokenId draw(std::span<const float> logits, float best, std::vector<RankedToken>& storage) const;
  /// draw() with filters that need all candidates.
  void draw_of_all(std::span<const float> logits, float best, std::vector<RankedToken>& storage,
                   Sampled& sampled) const;
  bool ends_are_banned() const { return state_.step < params_.min_tokens && !params_.ends.empty(); }

  SamplingParams params_;
  std::size_t vocab_;
  std::uint32_t choice_;
  SamplerState state_;
};

/// Adds the model's logprobs of `sampled.token` and of the `count` best tokens. The token need not have been
/// sampled; it can be one of a prompt.
void add_logprobs(Sampled& sampled, std::span<const float> logits, int count, SamplerScratch& scratch);

}  // namespace reprise::models
