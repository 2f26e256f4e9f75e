#include "protocol/llama/generation_settings.h"

#include <cmath>

namespace reprise::protocol::llama {
namespace {

Json biases_of(const SamplingParams& sampling) {
  Json biases = Json::array();
  for (const LogitBias& one : sampling.logit_bias) {
    biases.push_back(Json{{"token", one.token},
                          {"bias", std::isinf(one.bias) ? Json() : Json(static_cast<double>(one.bias))}});
  }
  return biases;
}

Json list_of(const std::vector<std::string>& items) {
  Json list = Json::array();
  for (const std::string& item : items) list.push_back(item);
  return list;
}

}  // namespace

Json generation_settings(const SamplingParams& sampling, const CompletionOptions& asked) {
  return Json{{"n_predict", asked.n_predict},
              {"max_tokens", asked.n_predict},
              {"seed", static_cast<std::int64_t>(sampling.seed)},
              {"temperature", sampling.temperature},
              {"dynatemp_range", 0.0},
              {"dynatemp_exponent", 1.0},
              {"top_k", sampling.top_k},
              {"top_p", sampling.top_p},
              {"min_p", sampling.min_p},
              {"top_n_sigma", sampling.top_n_sigma > 0 ? sampling.top_n_sigma : -1.0},
              {"xtc_probability", sampling.xtc_probability},
              {"xtc_threshold", sampling.xtc_threshold},
              {"typical_p", sampling.typical_p},
              {"repeat_last_n", sampling.repetition_last_n > 0 ? sampling.repetition_last_n : -1},
              {"repeat_penalty", sampling.repetition_penalty},
              {"presence_penalty", sampling.presence_penalty},
              {"frequency_penalty", sampling.frequency_penalty},
              {"dry_multiplier", sampling.dry_multiplier},
              {"dry_base", sampling.dry_base},
              {"dry_allowed_length", sampling.dry_allowed_length},
              {"dry_penalty_last_n", sampling.dry_penalty_last_n},
              {"mirostat", 0},
              {"mirostat_tau", 5.0},
              {"mirostat_eta", 0.1},
              {"adaptive_target", -1.0},
              {"adaptive_decay", 0.9},
              {"stop", list_of(asked.stop)},
              {"n_keep", 0},
              {"n_discard", 0},
              {"ignore_eos", asked.ignore_eos},
              {"stream", asked.stream},
              {"logit_bias", biases_of(sampling)},
              {"n_probs", asked.n_probs},
              {"min_keep", 0},
              {"grammar", asked.grammar},
              {"timings_per_token", asked.timings_per_token},
              {"post_sampling_probs", asked.drawn_probs},
              {"lora", Json::array()}};
}

Json default_settings(const ModelCard& card) {
  CompletionOptions nothing;
  if (card.max_tokens) nothing.n_predict = *card.max_tokens;
  Json settings = generation_settings(card.sampling, nothing);
  if (!card.fixed_seed) settings["seed"] = -1;
  return settings;
}

}  // namespace reprise::protocol::llama
