// The bodies of every API: each becomes a request within its limits, or a refusal that is fit to be sent.
#include <cmath>
#include <string>

#include "base/check.h"
#include "protocol/llama/token_requests.h"
#include "protocol/openai/error_body.h"
#include "protocol/openai/request.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {
namespace {

using namespace protocol;
using namespace protocol::llama;
using protocol::openai::TextKind;

// Small, so that short inputs come up against them.
BodyLimits small_limits() {
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

void check_refusal(const ApiError& error) {
  REPRISE_CHECK(error.status >= 400 && error.status < 500, "a refusal that blames the server");
  REPRISE_CHECK(!error.message.empty() && !error.code.empty(), "a refusal without a reason");
  const auto sent = Json::parse(openai::envelope(error).dump());
  REPRISE_CHECK(sent.ok() && sent->find_object("error") != nullptr, "a refusal that is no JSON");
}

bool is_within(const std::optional<double>& value, double least, double most) {
  return !value || (*value >= least && *value <= most);
}

void check_sampling(const SamplingWishes& sampling, const BodyLimits& limits) {
  REPRISE_CHECK(is_within(sampling.temperature, 0, 1000), "temperature");
  REPRISE_CHECK(is_within(sampling.top_p, 0, 1), "top_p");
  REPRISE_CHECK(is_within(sampling.min_p, 0, 1), "min_p");
  REPRISE_CHECK(is_within(sampling.repetition_penalty, 0, 1000), "repetition_penalty");
  REPRISE_CHECK(is_within(sampling.presence_penalty, -2, 2), "presence_penalty");
  REPRISE_CHECK(is_within(sampling.frequency_penalty, -2, 2), "frequency_penalty");
  REPRISE_CHECK(!sampling.top_k || *sampling.top_k >= 0, "top_k");
  REPRISE_CHECK(!sampling.logprobs || (*sampling.logprobs >= 0 && *sampling.logprobs <= limits.top_logprobs),
                "logprobs");
  REPRISE_CHECK(sampling.logit_bias.size() <= limits.logit_biases, "logit_bias");
  for (const auto& [id, bias] : sampling.logit_bias) {
    REPRISE_CHECK(id >= 0 && std::abs(bias) <= 100, "logit_bias");
  }
}

void check_tokens(const TokenList& tokens, const BodyLimits& limits) {
  REPRISE_CHECK(tokens.size() <= limits.prompt_tokens, "too many tokens");
  for (const TokenId id : tokens) REPRISE_CHECK(id >= 0, "a token id below 0");
}

void check_chat(const ChatPrompt& chat, const BodyLimits& limits) {
  REPRISE_CHECK(chat.messages.is_array() && chat.messages.size() <= limits.messages, "messages");
  for (const Json& message : chat.messages.as_array()) {
    REPRISE_CHECK(message.is_object() && message.find_string("role") != nullptr, "a message without a role");
  }
  REPRISE_CHECK(chat.tools.is_null() || (chat.tools.is_array() && chat.tools.size() <= limits.tools),
                "tools");
  REPRISE_CHECK(chat.template_extra.is_null() || chat.template_extra.is_object(), "chat_template_kwargs");
}

void check_prompt(const Prompt& prompt, const BodyLimits& limits) {
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    REPRISE_CHECK(text->size() <= limits.prompt_bytes, "a prompt over its limit");
  } else if (const auto* tokens = std::get_if<TokenList>(&prompt)) {
    REPRISE_CHECK(!tokens->empty(), "an empty prompt");
    check_tokens(*tokens, limits);
  } else if (const auto* infill = std::get_if<InfillPrompt>(&prompt)) {
    REPRISE_CHECK(infill->prefix.size() <= limits.prompt_bytes, "a prompt over its limit");
    REPRISE_CHECK(infill->suffix.size() <= limits.prompt_bytes, "a suffix over its limit");
  } else {
    check_chat(std::get<ChatPrompt>(prompt), limits);
  }
}

bool fuzz_generate(TextKind kind, std::string_view input) {
  const BodyLimits limits = small_limits();
  const auto request = openai::parse_request(kind, input, limits);
  if (!request.ok()) {
    check_refusal(request.error());
    return false;
  }
  const GenerateRequest& generate = request->asked.generate;
  REPRISE_CHECK(request->reply.kind == kind, "another kind of request");
  REPRISE_CHECK(std::holds_alternative<ChatPrompt>(generate.prompt) == (kind == TextKind::kChat),
                "another kind of prompt");
  REPRISE_CHECK(generate.n >= 1 && generate.n <= limits.choices && request->reply.n == generate.n, "n");
  REPRISE_CHECK(generate.stop.size() <= limits.stop_strings, "stop");
  for (const std::string& stop : generate.stop) {
    REPRISE_CHECK(!stop.empty() && stop.size() <= limits.stop_bytes, "stop");
  }
  REPRISE_CHECK(
      !generate.max_tokens || (*generate.max_tokens >= 1 && *generate.max_tokens <= limits.max_tokens),
      "max_tokens");
  REPRISE_CHECK(generate.model.size() <= limits.label_bytes, "model");
  REPRISE_CHECK(generate.conversation.size() <= limits.label_bytes, "prompt_cache_key");
  REPRISE_CHECK(request->asked.cache_salt.size() <= limits.label_bytes, "cache_salt");
  REPRISE_CHECK(request->reply.prompts == 1 + request->asked.further_prompts.size(), "prompts");
  REPRISE_CHECK(request->reply.prompts <= limits.prompts, "prompts");
  check_sampling(generate.sampling, limits);
  check_prompt(generate.prompt, limits);
  for (const Prompt& prompt : request->asked.further_prompts) check_prompt(prompt, limits);
  return true;
}

template <class Read>
bool refused_or(Read read) {
  try {
    read(small_limits());
    return true;
  } catch (const BadRequest& refused) {
    check_refusal(refused.error());
    return false;
  }
}

}  // namespace

bool fuzz_chat(std::string_view input) {
  return fuzz_generate(TextKind::kChat, input);
}

bool fuzz_completion(std::string_view input) {
  return fuzz_generate(TextKind::kCompletion, input);
}

bool fuzz_tokenize(std::string_view input) {
  return refused_or([&](const BodyLimits& limits) {
    const TokenizeRequest request = read_tokenize(input, limits);
    REPRISE_CHECK(request.text.size() <= limits.prompt_bytes, "a text over its limit");
    // Pieces of tokens are any bytes; the answer has to be JSON whatever they are.
    const Tokenized answer{.tokens = {1, 2}, .pieces = {request.text, std::string(input.substr(0, 5))}};
    REPRISE_CHECK(Json::parse(tokenize_body(answer, request.with_pieces)).ok(), "an answer that is no JSON");
  });
}

bool fuzz_detokenize(std::string_view input) {
  return refused_or(
      [&](const BodyLimits& limits) { check_tokens(read_detokenize(input, limits).tokens, limits); });
}

bool fuzz_apply_template(std::string_view input) {
  return refused_or(
      [&](const BodyLimits& limits) { check_chat(read_apply_template(input, limits).chat, limits); });
}

}  // namespace reprise::fuzz
