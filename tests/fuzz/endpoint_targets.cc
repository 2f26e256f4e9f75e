// Request bodies of the APIs other than OpenAI's, read by the endpoints of the served table
// (protocol/apis.h): each becomes a request, a question to the engine, or an error in the form of its API.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "protocol/apis.h"
#include "tests/fuzz/request_checks.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {
namespace {

using namespace protocol;

void check_answer(const Dialect& dialect, const Error& error) {
  check_refusal(error);
  const Dialect::ErrorAnswer answer = dialect.error_answer(error);
  REPRISE_CHECK(answer.status >= 400 && answer.status < 500, "a refusal that blames the server");
  REPRISE_CHECK(Json::parse(answer.body).ok(), "a refusal that is no JSON");
}

void check_messages(const ChatPrompt& chat) {
  REPRISE_CHECK(chat.messages.is_array(), "messages is no array, or too long");
  for (const Json& message : chat.messages.as_array()) {
    REPRISE_CHECK(message.is_object() && message.find_string("role") != nullptr, "a message without a role");
  }
  REPRISE_CHECK(chat.tools.is_null() || chat.tools.is_array(),
                "tools is neither null nor an array, or too long");
  REPRISE_CHECK(chat.template_extra.is_null() || chat.template_extra.is_object(),
                "the template's extra names are neither null nor an object");
}

void check_request(const ApiRequest& request, const BodyLimits& limits) {
  const GenerateRequest& generate = request.generate;
  REPRISE_CHECK(generate.n >= 1 && generate.n <= limits.choices, "n is out of range");
  REPRISE_CHECK(generate.rules.stop.size() <= limits.stop_strings,
                "stop has too many strings, or an empty or too long one");
  for (const std::string& stop : generate.rules.stop) {
    REPRISE_CHECK(!stop.empty() && stop.size() <= limits.stop_bytes,
                  "stop has too many strings, or an empty or too long one");
  }
  REPRISE_CHECK(!generate.max_tokens || *generate.max_tokens <= limits.max_tokens,
                "max_tokens is out of range");
  REPRISE_CHECK(generate.model.size() <= limits.label_bytes, "model is longer than its limit");
  REPRISE_CHECK(request.cache_salt.size() <= limits.label_bytes, "cache_salt is longer than its limit");
  REPRISE_CHECK(request.further_prompts.size() < limits.prompts,
                "the request has too many prompts, or the reply another number of them");
  check_sampling(generate.sampling, limits);
  if (const auto* chat = std::get_if<ChatPrompt>(&generate.prompt)) check_messages(*chat);
}

/// Builds the table for each input, since its endpoints have state.
bool fuzz_path(std::string_view path, std::string_view input) {
  const ApiTable table = all_apis();
  const auto route = std::find_if(table.routes.begin(), table.routes.end(), [&](const ApiRoute& one) {
    return one.path == path && one.method == HttpMethod::kPost;
  });
  REPRISE_CHECK(route != table.routes.end(), "a path that is not served");
  const BodyLimits limits = small_limits();
  try {
    const ParsedCall parsed = route->endpoint->parse({.body = input}, limits);
    if (const auto* error = std::get_if<Error>(&parsed)) {
      check_answer(route->endpoint->dialect(), *error);
      return false;
    }
    if (const auto* call = std::get_if<std::unique_ptr<GenerationCall>>(&parsed)) {
      REPRISE_CHECK(*call != nullptr, "the parsed request has no call");
      check_request((*call)->request, limits);
    } else {
      REPRISE_CHECK(std::get<std::unique_ptr<Question>>(parsed) != nullptr,
                    "the parsed request has no question");
    }
    return true;
  } catch (const BadRequest& refused) {
    check_answer(route->endpoint->dialect(), refused.error());
    return false;
  }
}

}  // namespace

bool fuzz_messages(std::string_view input) {
  return fuzz_path("/v1/messages", input);
}

bool fuzz_count_tokens(std::string_view input) {
  return fuzz_path("/v1/messages/count_tokens", input);
}

bool fuzz_responses(std::string_view input) {
  return fuzz_path("/v1/responses", input);
}

bool fuzz_ollama_chat(std::string_view input) {
  return fuzz_path("/api/chat", input);
}

bool fuzz_ollama_generate(std::string_view input) {
  return fuzz_path("/api/generate", input);
}

bool fuzz_llama_completion(std::string_view input) {
  return fuzz_path("/completion", input);
}

bool fuzz_infill(std::string_view input) {
  return fuzz_path("/infill", input);
}

bool fuzz_snapshots(std::string_view input) {
  return fuzz_path("/v1/snapshots", input);
}

bool fuzz_embeddings(std::string_view input) {
  return fuzz_path("/v1/embeddings", input);
}

}  // namespace reprise::fuzz
