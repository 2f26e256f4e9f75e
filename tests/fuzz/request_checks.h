#pragma once
// Invariants of a request that was read within small limits, and of a refusal.

#include <cmath>
#include <optional>
#include <string>
#include <variant>

#include "base/check.h"
#include "base/sampling.h"
#include "protocol/api/api_error.h"
#include "protocol/api/body_limits.h"
#include "protocol/service.h"

namespace reprise::fuzz {

// Small limits, which short inputs can reach.
inline protocol::BodyLimits small_limits() {
  return {.nesting = 16,
          .values = 400,
          .messages = 6,
          .tools = 3,
          .stop_strings = 3,
          .stop_bytes = 16,
          .prompt_bytes = 600,
          .prompt_tokens = 24,
          .prompts = 3,
          .choices = 4,
          .max_tokens = 1000,
          .top_logprobs = 5,
          .logit_biases = 3,
          .label_bytes = 24};
}

inline void check_refusal(const protocol::Error& error) {
  const int status = protocol::shown(error).status;
  REPRISE_CHECK(status >= 400 && status < 500, "a refusal that blames the server");
  REPRISE_CHECK(!error.message.empty() && !error.code.empty(), "a refusal without a reason");
  const auto sent = Json::parse(protocol::error_envelope(error).dump());
  REPRISE_CHECK(sent.ok() && sent->find_object("error") != nullptr, "a refusal that is no JSON");
}

inline bool is_within(const std::optional<double>& value, double min, double max) {
  return !value || (*value >= min && *value <= max);
}

inline void check_sampling(const SamplingOverrides& sampling, const protocol::BodyLimits& limits) {
  REPRISE_CHECK(is_within(sampling.temperature, 0, 1000), "temperature is out of range");
  REPRISE_CHECK(is_within(sampling.top_p, 0, 1), "top_p is out of range");
  REPRISE_CHECK(is_within(sampling.min_p, 0, 1), "min_p is out of range");
  REPRISE_CHECK(is_within(sampling.repetition_penalty, 0, 1000), "repetition_penalty is out of range");
  REPRISE_CHECK(is_within(sampling.presence_penalty, -2, 2), "presence_penalty is out of range");
  REPRISE_CHECK(is_within(sampling.frequency_penalty, -2, 2), "frequency_penalty is out of range");
  REPRISE_CHECK(!sampling.top_k || *sampling.top_k >= 0, "top_k is negative");
  REPRISE_CHECK(!sampling.logprobs || (*sampling.logprobs >= 0 && *sampling.logprobs <= limits.top_logprobs),
                "logprobs is out of range");
  REPRISE_CHECK(sampling.logit_bias.size() <= limits.logit_biases,
                "logit_bias has too many entries, or one out of range");
  for (const auto& [id, bias] : sampling.logit_bias) {
    REPRISE_CHECK(id >= 0 && std::abs(bias) <= 100, "logit_bias has too many entries, or one out of range");
  }
}

inline void check_tokens(const TokenList& tokens, const protocol::BodyLimits& limits) {
  REPRISE_CHECK(tokens.size() <= limits.prompt_tokens, "too many tokens");
  for (const TokenId id : tokens) REPRISE_CHECK(id >= 0, "a token id below 0");
}

inline void check_chat(const protocol::ChatPrompt& chat, const protocol::BodyLimits& limits) {
  REPRISE_CHECK(chat.messages.is_array() && chat.messages.size() <= limits.messages,
                "messages is no array, or too long");
  for (const Json& message : chat.messages.as_array()) {
    REPRISE_CHECK(message.is_object() && message.find_string("role") != nullptr, "a message without a role");
  }
  REPRISE_CHECK(chat.tools.is_null() || (chat.tools.is_array() && chat.tools.size() <= limits.tools),
                "tools is neither null nor an array, or too long");
  REPRISE_CHECK(chat.template_extra.is_null() || chat.template_extra.is_object(),
                "chat_template_kwargs is neither null nor an object");
}

inline void check_prompt(const protocol::Prompt& prompt, const protocol::BodyLimits& limits) {
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    REPRISE_CHECK(text->size() <= limits.prompt_bytes, "a prompt over its limit");
  } else if (const auto* tokens = std::get_if<TokenList>(&prompt)) {
    REPRISE_CHECK(!tokens->empty(), "an empty prompt");
    check_tokens(*tokens, limits);
  } else if (const auto* infill = std::get_if<protocol::InfillPrompt>(&prompt)) {
    REPRISE_CHECK(infill->prefix.size() <= limits.prompt_bytes, "a prompt over its limit");
    REPRISE_CHECK(infill->suffix.size() <= limits.prompt_bytes, "a suffix over its limit");
  } else {
    check_chat(std::get<protocol::ChatPrompt>(prompt), limits);
  }
}

}  // namespace reprise::fuzz
