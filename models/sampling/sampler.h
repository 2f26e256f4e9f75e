#pragma once
// Chooses the next token of one sequence from its logits.
//
// What happens to the logits of a step, in this order:
//   0. mask                 tokens that the step's mask does not allow are never chosen; no mask: all are allowed
//   1. bias                 logit += bias
//   2. repetition penalty   logit > 0 ? logit / p : logit * p, for tokens in prompt or output, in the window
//   3. presence, frequency  logit -= presence + frequency * times, for tokens in the output alone
//      DRY                  logit -= multiplier * base^(length - allowed), for tokens that go on with a repetition
//      min_tokens           what ends a reply is not chosen while it is too short
//   4. temperature 0        the best token, the lowest id among equals, and done
//   5. temperature          logit /= temperature
//   6. top_n_sigma, top_k  7. top_p  8. min_p, typical_p, XTC    each on what the one before it left
//                           (models/sampling/candidates.h)
//   9. the draw             the first token, in rank order, at which the running sum of the mass passes u
//                           times the whole; u is one uniform number (models/sampling/noise.h)
// Rank order is by logit, higher first, and by token id among equals, lower first.
//
// NaN and -infinity are never chosen. A logit of +infinity beats every finite one, and several are equally
// likely. Where nothing is left to choose, the answer is a SampleError.
//
// Logprobs are of the model's own distribution, unless those of the draw are wanted: the log-softmax of the logits as
// they came, before any of the steps above. The chosen token's may therefore be low: even -infinity, where the model gave another
// token +infinity and a bias banned that.
//
// The choice is a function of parameters, choice index, tokens accepted and logits: no clock, no other
// sequence, no thread count; the same on every machine (models/sampling/softmax.h). sample() changes nothing, so
// asking twice gives the same answer; accept() goes on to the next step.
//
// Threading: a Sampler is a value; const calls from any thread, each with a scratch of its own.

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
  std::optional<double> logprob{};  // of `token`; there if the request asked for logprobs
  std::vector<TokenLogprob> top{};  // the model's best, in rank order; NaN and -infinity are left out

  bool operator==(const Sampled&) const = default;
};

enum class SampleError : std::uint8_t {
  kNoLogits,     // the model's fault: every logit is NaN or -infinity
  kAllBanned,    // the request's fault: its biases and penalties leave no token
  kNoneAllowed,  // no token that the mask allows is left
};

const char* to_string(SampleError error);

using SampleResult = std::variant<Sampled, SampleError>;

enum class TokenOrigin : std::uint8_t { kPrompt, kOutput };

/// What a sampler remembers of its sequence: all that a snapshot needs besides the parameters. It does not
/// know its choice index, so one state can go on as several choices. Its size grows with the number of
/// distinct tokens, and only if the parameters have penalties that look at them.
struct SamplerState {
  struct Seen {
    std::uint64_t last = 0;     // `accepted` just after it came last
    std::uint64_t outputs = 0;  // times it came as output

    bool operator==(const Seen&) const = default;
  };

  std::uint64_t step = 0;      // output tokens accepted
  std::uint64_t accepted = 0;  // prompt and output tokens accepted
  std::unordered_map<TokenId, Seen> seen{};
  std::vector<TokenId> history{};  // all tokens, where DRY looks at them

  bool operator==(const SamplerState&) const = default;
};

/// Memory that sample() works in; keep one per thread, to save allocating. Carries nothing from call to call.
struct SamplerScratch {
  std::vector<float> logits;        // after bias and penalties
  std::vector<RankedToken> ranked;  // the part of the rank order that was looked at
};

/// What the choice of one step depends on besides the logits, for a device that makes the choice itself. The
/// steps at the top of this file, with the noise already drawn.
struct DrawPlan {
  /// Of one token: logit += bias; then divided (above 0) or multiplied by `penalty`; then -= `subtracted`.
  struct Adjustment {
    TokenId token = 0;
    float bias = 0;
    float penalty = 1;
    float subtracted = 0;
  };
  double temperature = 1;  // 0: greedy
  std::int64_t top_k = 0;  // 0: all
  double top_p = 1;
  double min_p = 0;
  double noise = 0;  // uniform in [0, 1)
  /// Where the step's mask will be; null: all tokens are allowed.
  std::shared_ptr<const MaskSlot> masks{};
  std::uint64_t step = 0;
  std::vector<Adjustment> adjustments{};
};

class Sampler {
 public:
  /// `params` must be valid for this vocabulary. `choice` tells the n completions of a request apart.
  Sampler(SamplingParams params, std::size_t vocab, std::uint32_t choice = 0);

  /// Takes note of a token: every prompt token once, in order, then each output token.
  void accept(TokenId token, TokenOrigin origin);

  /// The token of the current step. `logits` has one for each token of the vocabulary.
  /// `mask`: what may be chosen; null: all.
  SampleResult sample(std::span<const float> logits, SamplerScratch& scratch,
                      const TokenMask* mask = nullptr) const;

  /// The same choice as sample()'s, up to rounding of the masses, to be made elsewhere. Nothing if logprobs
  /// are wanted, if more tokens than `most_adjustments` have their logits changed, or for what needs all
  /// candidates: top_n_sigma, typical_p, XTC and DRY.
  std::optional<DrawPlan> plan(std::size_t most_adjustments) const;

  const SamplingParams& params() const { return params_; }
  std::uint32_t choice() const { return choice_; }
  const SamplerState& state() const { return state_; }

  /// Goes on from a state of a sampler with the same parameters; its choice index may have been another.
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
  /// The same with filters that need all candidates.
  void draw_of_all(std::span<const float> logits, float best, std::vector<RankedToken>& storage,
                   Sampled& sampled) const;
  bool ends_are_banned() const { return state_.step < params_.min_tokens && !params_.ends.empty(); }

  SamplingParams params_;
  std::size_t vocab_;
  std::uint32_t choice_;
  SamplerState state_;
};

/// Adds the model's logprob of `sampled.token` and the `count` best alternatives. Also for tokens that nobody
/// sampled, as those of a prompt.
void add_logprobs(Sampled& sampled, std::span<const float> logits, int count, SamplerScratch& scratch);

}  // namespace reprise::models
