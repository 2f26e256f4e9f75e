// Request bodies of all APIs: each becomes a request within its limits or a valid error response.
#include <string>

#include "base/check.h"
#include "protocol/api/completions_request.h"
#include "protocol/llama/token_requests.h"
#include "tests/fuzz/request_checks.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {
namespace {

using namespace protocol;
using namespace protocol::llama;

bool fuzz_generate(TextKind kind, std::string_view input) {
  const BodyLimits limits = small_limits();
  const auto request = parse_request(kind, input, limits);
  if (!request.ok()) {
    check_refusal(request.error());
    return false;
  }
  const GenerateRequest& generate = request->asked.generate;
  REPRISE_CHECK(request->reply.kind == kind, "the request was parsed as another kind");
  REPRISE_CHECK(std::holds_alternative<ChatPrompt>(generate.prompt) == (kind == TextKind::kChat),
                "the prompt was parsed as another kind");
  REPRISE_CHECK(generate.n >= 1 && generate.n <= limits.choices && request->reply.n == generate.n,
                "n is out of range");
  REPRISE_CHECK(generate.rules.stop.size() <= limits.stop_strings,
                "stop has too many strings, or an empty or too long one");
  for (const std::string& stop : generate.rules.stop) {
    REPRISE_CHECK(!stop.empty() && stop.size() <= limits.stop_bytes,
                  "stop has too many strings, or an empty or too long one");
  }
  REPRISE_CHECK(
      !generate.max_tokens || (*generate.max_tokens >= 1 && *generate.max_tokens <= limits.max_tokens),
      "max_tokens is out of range");
  REPRISE_CHECK(generate.model.size() <= limits.label_bytes, "model is longer than its limit");
  REPRISE_CHECK(generate.cache.conversation.size() <= limits.label_bytes,
                "prompt_cache_key is longer than its limit");
  REPRISE_CHECK(request->asked.cache_salt.size() <= limits.label_bytes,
                "cache_salt is longer than its limit");
  REPRISE_CHECK(request->reply.prompts == 1 + request->asked.further_prompts.size(),
                "the request has too many prompts, or the reply another number of them");
  REPRISE_CHECK(request->reply.prompts <= limits.prompts,
                "the request has too many prompts, or the reply another number of them");
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
    // Token pieces may be any bytes; the response must be JSON nevertheless.
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
