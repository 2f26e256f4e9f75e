#pragma once
// Fields that OpenAI's API, vLLM and llama-server have for everyday wishes: where a reply ends, what of the prompt counts,
// how many are drawn to choose from, and samplers beyond the usual ones.
//
// Threading: pure functions. All throw BadRequest.

#include "protocol/api/fields.h"
#include "protocol/openai/request.h"

namespace reprise::protocol::openai {

/// stop_token_ids, min_tokens, include_stop_str_in_output.
void read_ends(const Fields& fields, const BodyLimits& limits, GenerateRequest& generate);
/// Tokens of reasoning, in the field of that name; -1: unlimited.
void read_reasoning_budget(const Fields& fields, const char* name, ApiRequest& asked);
/// The same under the names that vLLM, Qwen and llama-server have for it; the first that is there counts.
void read_reasoning_budget(const Fields& fields, ApiRequest& asked);
/// The object `reasoning`: OpenAI's effort, OpenRouter's max_tokens and enabled. `extra`: names for the template.
void read_reasoning(const Fields& fields, ApiRequest& asked, Json& extra);
/// typical_p, top_n_sigma, xtc_…, dry_….
void read_samplers(const Fields& fields, const BodyLimits& limits, GenerateRequest& generate);
/// echo, suffix, best_of: of completions, whose prompts have been read.
void read_completion_wishes(const Fields& fields, const BodyLimits& limits, TextRequest& request);

}  // namespace reprise::protocol::openai
