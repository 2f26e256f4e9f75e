#pragma once
// Readers for the request fields that several APIs share, under the names of OpenAI, vLLM and llama-server.
//
// A field that is not read is refused by name, reported in the answer, or ignored for a documented reason
// (protocol/api/field_rules.h). A wrong type or value is refused with the field's name and the reason: all
// functions throw BadRequest.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"
#include "protocol/api/fields.h"

namespace reprise::protocol {

/// The API whose conventions apply where the same fields differ. llama-server accepts any model name if it
/// serves only one, continues a final assistant message, draws a seed for -1, and adds figures of its own to
/// replies. Anthropic's API has its own names for stop fields.
enum class ApiFlavor : std::uint8_t { kOpenAi, kLlamaServer, kAnthropic };

/// Reads the model, the cache fields, the priority and what to report.
void read_basics(const Fields& fields, const BodyLimits& limits, ApiRequest& asked);
/// Reads everything except the prompt and the fields that shape the reply: the basics, sampling, token
/// biases, constraints, stop conditions and the token limit.
ApiRequest read_common(const Fields& fields, const BodyLimits& limits, ApiFlavor flavor);

/// Reads a field that is a string or an array of strings.
std::vector<std::string> read_stop(const Fields& fields, const std::string& name, const BodyLimits& limits);
/// Reads the maximum number of reply tokens. -1: only the context limits it.
void read_token_limit(const Fields& fields, const char* name, const BodyLimits& limits,
                      GenerateRequest& generate);
/// Reads the maximum number of reasoning tokens. -1: unlimited.
void read_reasoning_budget(const Fields& fields, const char* name, ApiRequest& asked);
/// Reads the object `reasoning`: OpenAI's effort, OpenRouter's max_tokens and enabled. `extra` gets template
/// variables.
void read_reasoning(const Fields& fields, ApiRequest& asked, Json& extra);
void read_progress(const Fields& fields, ApiRequest& asked, bool& timings_per_token);

}  // namespace reprise::protocol
