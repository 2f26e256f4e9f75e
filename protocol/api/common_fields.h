#pragma once
// The fields that several APIs have for the same: what OpenAI, vLLM and llama-server call them.
//
// A field that is not read is refused by name, reported in the answer, or ignored for a reason that is stated
// (protocol/api/field_rules.h). Wrong types and values are refused with the field's name and the reason.
//
// Threading: pure functions. All throw BadRequest.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"
#include "protocol/api/fields.h"

namespace reprise::protocol {

/// Whose habits count where OpenAI's fields leave a choice. llama-server takes any model's name where it serves one,
/// goes on from an assistant's message that stands last, draws a seed for -1, and adds figures of its own to replies.
/// Anthropic's API has its own names for what ends a reply.
enum class Manners : std::uint8_t { kOpenAi, kLlamaServer, kAnthropic };

/// What every request may say: the model, the cache, the priority, what is reported.
void read_basics(const Fields& fields, const BodyLimits& limits, ApiRequest& asked);
/// All but the prompt, what becomes of it and how the reply looks: the basics, sampling, biases of tokens, constraints, where
/// a reply ends and how long it may be.
ApiRequest read_common(const Fields& fields, const BodyLimits& limits, Manners manners);

/// Strings that end a reply, in the field of that name: one or several.
std::vector<std::string> read_stop(const Fields& fields, const std::string& name, const BodyLimits& limits);
/// The most tokens of a reply, in the field of that name; -1 is all that fits.
void read_token_limit(const Fields& fields, const char* name, const BodyLimits& limits,
                      GenerateRequest& generate);
/// Tokens of reasoning, in the field of that name; -1: unlimited.
void read_reasoning_budget(const Fields& fields, const char* name, ApiRequest& asked);
/// The object `reasoning`: OpenAI's effort, OpenRouter's max_tokens and enabled. `extra`: names for the template.
void read_reasoning(const Fields& fields, ApiRequest& asked, Json& extra);
/// llama-server's return_progress and timings_per_token.
void read_progress(const Fields& fields, ApiRequest& asked, bool& timings_per_token);

}  // namespace reprise::protocol
