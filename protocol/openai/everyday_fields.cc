#include "protocol/openai/everyday_fields.h"

#include <limits>

#include "protocol/api/api_error.h"
#include "protocol/api/body.h"

namespace reprise::protocol::openai {
namespace {

constexpr std::size_t kMostStopTokens = 64;
constexpr std::size_t kMostBreakers = 16;
constexpr std::int64_t kMostCount = std::numeric_limits<std::int32_t>::max();

std::vector<std::string> read_breakers(const Fields& fields, const BodyLimits& limits) {
  const Json::Array* given = fields.array("dry_sequence_breakers");
  if (given == nullptr) return {"\n", ":", "\"", "*"};
  if (given->size() > kMostBreakers) {
    refuse_field("dry_sequence_breakers", "too_many", "has more than " + std::to_string(kMostBreakers));
  }
  std::vector<std::string> breakers;
  for (std::size_t i = 0; i < given->size(); ++i) {
    const std::string path = item_of("dry_sequence_breakers", i);
    if (!(*given)[i].is_string()) refuse_kind(path, "a string", (*given)[i]);
    const std::string& text = (*given)[i].as_string();
    if (text.empty() || text.size() > limits.stop_bytes) {
      refuse_field(path, "invalid_value", "must have 1 to " + std::to_string(limits.stop_bytes) + " bytes");
    }
    breakers.push_back(text);
  }
  return breakers;
}

}  // namespace

void read_ends(const Fields& fields, const BodyLimits& limits, GenerateRequest& generate) {
  if (const Json::Array* ids = fields.array("stop_token_ids")) {
    if (ids->size() > kMostStopTokens) {
      refuse_field("stop_token_ids", "too_many", "has more than " + std::to_string(kMostStopTokens));
    }
    generate.stop_tokens = read_token_list(*ids, "stop_token_ids", limits);
  }
  generate.min_tokens =
      static_cast<std::uint32_t>(fields.integer("min_tokens", 0, limits.max_tokens).value_or(0));
  if (generate.max_tokens && generate.min_tokens > *generate.max_tokens) {
    refuse_field("min_tokens", "invalid_value", "is more than max_tokens");
  }
  generate.keep_stop = fields.boolean_or("include_stop_str_in_output", false);
}

void read_reasoning_budget(const Fields& fields, const char* name, ApiRequest& asked) {
  const auto tokens = fields.integer(name, -1, kMostCount);
  if (!tokens) return;
  asked.generate.reasoning_budget = static_cast<std::int32_t>(*tokens);
  asked.reasoning_budget_field = fields.path_of(name);
}

void read_reasoning_budget(const Fields& fields, ApiRequest& asked) {
  for (const char* name : {"thinking_token_budget", "thinking_budget", "reasoning_budget_tokens",
                           "thinking_budget_tokens", "reasoning_budget"}) {
    if (!asked.generate.reasoning_budget) read_reasoning_budget(fields, name, asked);
  }
}

void read_reasoning(const Fields& fields, ApiRequest& asked, Json& extra) {
  const auto reasoning = fields.within("reasoning");
  if (!reasoning) return;
  read_reasoning_budget(*reasoning, "max_tokens", asked);
  if (const auto enabled = reasoning->boolean("enabled")) extra["enable_thinking"] = *enabled;
  const std::string* effort = reasoning->string("effort", 64);
  if (effort != nullptr && *effort == "none") {
    extra["enable_thinking"] = false;
  } else if (effort != nullptr) {
    extra["reasoning_effort"] = *effort;
  }
}

void read_samplers(const Fields& fields, const BodyLimits& limits, GenerateRequest& generate) {
  SamplingWishes& sampling = generate.sampling;
  sampling.typical_p = fields.number("typical_p", 0, 1);
  sampling.top_n_sigma = fields.number("top_n_sigma", -1, 100);
  if (sampling.top_n_sigma && *sampling.top_n_sigma < 0) sampling.top_n_sigma = 0;
  sampling.xtc_probability = fields.number("xtc_probability", 0, 1);
  sampling.xtc_threshold = fields.number("xtc_threshold", 0, 1);
  sampling.dry_multiplier = fields.number("dry_multiplier", 0, 100);
  sampling.dry_base = fields.number("dry_base", 1, 100);
  sampling.dry_allowed_length = fields.integer("dry_allowed_length", 1, 1'000'000);
  sampling.dry_penalty_last_n = fields.integer("dry_penalty_last_n", -1, kMostCount);
  std::vector<std::string> breakers = read_breakers(fields, limits);
  if (sampling.dry_multiplier.value_or(0) > 0) generate.dry_breakers = std::move(breakers);
}

void read_completion_wishes(const Fields& fields, const BodyLimits& limits, TextRequest& request) {
  GenerateRequest& generate = request.asked.generate;
  ReplyOptions& reply = request.reply;
  if (const std::string* suffix = fields.string("suffix", limits.prompt_bytes); suffix && !suffix->empty()) {
    const auto fill = [&](Prompt& prompt) {
      const auto* text = std::get_if<std::string>(&prompt);
      if (text == nullptr) refuse_field("suffix", "invalid_value", "only goes with prompts that are text");
      prompt = InfillPrompt{.prefix = *text, .suffix = *suffix, .field = "suffix"};
    };
    fill(generate.prompt);
    for (Prompt& prompt : request.asked.further_prompts) fill(prompt);
  }
  if (fields.boolean_or("echo", false)) {
    if (reply.logprobs) refuse_unsupported("echo", "is not supported together with logprobs");
    reply.echo = true;
    generate.want_settled = true;
    const auto keep = [&](const Prompt& prompt) {
      const auto* text = std::get_if<std::string>(&prompt);
      reply.prompt_texts.push_back(text == nullptr ? std::string() : *text);
    };
    keep(generate.prompt);
    for (const Prompt& prompt : request.asked.further_prompts) keep(prompt);
  }
  if (const auto best_of = fields.integer("best_of", 1, limits.choices)) {
    if (*best_of < generate.n) refuse_field("best_of", "invalid_value", "is less than n");
    if (*best_of == generate.n) return;
    if (request.asked.stream)
      refuse_field("best_of", "invalid_value", "does not go together with \"stream\": true");
    reply.shown = generate.n;
    reply.n = generate.n = static_cast<std::uint32_t>(*best_of);
    if (!generate.sampling.logprobs) generate.sampling.logprobs = 0;
  }
}

}  // namespace reprise::protocol::openai
