#include "base/sampling.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

namespace reprise {
namespace {

constexpr double kHottest = 100;
constexpr double kStrongestRepetition = 100;
constexpr double kStrongestPenalty = 2;

std::string text_of(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", value);
  return buffer;
}

class Errors {
 public:
  /// NaN is rejected.
  void between(const char* field, double value, double low, double high) {
    if (value >= low && value <= high) return;
    add(field, "must lie between " + text_of(low) + " and " + text_of(high) + ", is " + text_of(value));
  }

  void add(const char* field, std::string reason) { errors_.push_back({field, std::move(reason)}); }

  std::vector<ParamError> take() { return std::move(errors_); }

 private:
  std::vector<ParamError> errors_;
};

void check_bias(const LogitBias& entry, std::size_t vocab, Errors& errors) {
  const std::string token = "token " + std::to_string(entry.token);
  if (entry.token < 0 || static_cast<std::size_t>(entry.token) >= vocab) {
    errors.add("logit_bias", token + " is not in the vocabulary of " + std::to_string(vocab));
  }
  // +infinity plus a logit of -infinity would be NaN.
  if (!(entry.bias < std::numeric_limits<float>::infinity())) {
    errors.add("logit_bias", token + " has a bias of " + text_of(entry.bias) + ", which is no finite number");
  }
}

}  // namespace

std::vector<ParamError> SamplingParams::validate(std::size_t vocab) const {
  Errors errors;
  errors.between("temperature", temperature, 0, kHottest);
  if (top_k < -1) errors.add("top_k", "must be at least 1, or 0 or -1 for all, is " + std::to_string(top_k));
  errors.between("top_p", top_p, 0, 1);
  errors.between("min_p", min_p, 0, 1);
  if (!(repetition_penalty > 0 && repetition_penalty <= kStrongestRepetition)) {
    errors.add("repetition_penalty", "must be above 0 and at most " + text_of(kStrongestRepetition) +
                                         ", is " + text_of(repetition_penalty));
  }
  errors.between("presence_penalty", presence_penalty, -kStrongestPenalty, kStrongestPenalty);
  errors.between("frequency_penalty", frequency_penalty, -kStrongestPenalty, kStrongestPenalty);
  errors.between("top_n_sigma", top_n_sigma, 0, 100);
  errors.between("typical_p", typical_p, 0, 1);
  errors.between("xtc_probability", xtc_probability, 0, 1);
  errors.between("xtc_threshold", xtc_threshold, 0, 1);
  errors.between("dry_multiplier", dry_multiplier, 0, 100);
  errors.between("dry_base", dry_base, 1, 100);
  errors.between("dry_allowed_length", static_cast<double>(dry_allowed_length), 1, 1e6);
  errors.between("dry_penalty_last_n", static_cast<double>(dry_penalty_last_n), -1, 1e9);
  for (const TokenId id : ends) {
    if (id >= 0 && static_cast<std::size_t>(id) < vocab) continue;
    errors.add("stop_token_ids",
               "token " + std::to_string(id) + " is not in the vocabulary of " + std::to_string(vocab));
  }
  for (const LogitBias& entry : logit_bias) check_bias(entry, vocab, errors);
  if (logprobs && (*logprobs < 0 || *logprobs > kMaxLogprobs)) {
    errors.add("logprobs", "must lie between 0 and " + std::to_string(kMaxLogprobs) + ", is " +
                               std::to_string(*logprobs));
  }
  return errors.take();
}

void overlay(SamplingOverrides& wishes, const SamplingOverrides& over) {
  const auto take = [&](auto SamplingOverrides::*wish) {
    if (over.*wish) wishes.*wish = over.*wish;
  };
  take(&SamplingOverrides::temperature);
  take(&SamplingOverrides::top_k);
  take(&SamplingOverrides::top_p);
  take(&SamplingOverrides::min_p);
  take(&SamplingOverrides::repetition_penalty);
  take(&SamplingOverrides::repetition_last_n);
  take(&SamplingOverrides::presence_penalty);
  take(&SamplingOverrides::frequency_penalty);
  take(&SamplingOverrides::top_n_sigma);
  take(&SamplingOverrides::typical_p);
  take(&SamplingOverrides::xtc_probability);
  take(&SamplingOverrides::xtc_threshold);
  take(&SamplingOverrides::dry_multiplier);
  take(&SamplingOverrides::dry_base);
  take(&SamplingOverrides::dry_allowed_length);
  take(&SamplingOverrides::dry_penalty_last_n);
  take(&SamplingOverrides::seed);
  take(&SamplingOverrides::logprobs);
  if (!over.logit_bias.empty()) wishes.logit_bias = over.logit_bias;
}

SamplingParams resolve(const SamplingOverrides& client, const SamplingOverrides& model) {
  SamplingParams params;
  const auto take = [&](auto SamplingParams::*param, auto SamplingOverrides::*wish) {
    if (client.*wish) {
      params.*param = *(client.*wish);
    } else if (model.*wish) {
      params.*param = *(model.*wish);
    }
  };
  take(&SamplingParams::temperature, &SamplingOverrides::temperature);
  take(&SamplingParams::top_k, &SamplingOverrides::top_k);
  take(&SamplingParams::top_p, &SamplingOverrides::top_p);
  take(&SamplingParams::min_p, &SamplingOverrides::min_p);
  take(&SamplingParams::repetition_penalty, &SamplingOverrides::repetition_penalty);
  take(&SamplingParams::repetition_last_n, &SamplingOverrides::repetition_last_n);
  take(&SamplingParams::presence_penalty, &SamplingOverrides::presence_penalty);
  take(&SamplingParams::frequency_penalty, &SamplingOverrides::frequency_penalty);
  take(&SamplingParams::top_n_sigma, &SamplingOverrides::top_n_sigma);
  take(&SamplingParams::typical_p, &SamplingOverrides::typical_p);
  take(&SamplingParams::xtc_probability, &SamplingOverrides::xtc_probability);
  take(&SamplingParams::xtc_threshold, &SamplingOverrides::xtc_threshold);
  take(&SamplingParams::dry_multiplier, &SamplingOverrides::dry_multiplier);
  take(&SamplingParams::dry_base, &SamplingOverrides::dry_base);
  take(&SamplingParams::dry_allowed_length, &SamplingOverrides::dry_allowed_length);
  take(&SamplingParams::dry_penalty_last_n, &SamplingOverrides::dry_penalty_last_n);
  take(&SamplingParams::seed, &SamplingOverrides::seed);
  params.logit_bias = client.logit_bias.empty() ? model.logit_bias : client.logit_bias;
  params.logprobs = client.logprobs ? client.logprobs : model.logprobs;
  return params;
}

}  // namespace reprise
