#pragma once
// How llama-server tells errors, as OpenAI does but for some types and what is told of prompts that are too long:
// {"error":{"code":…,"message":…,"type":…,"param":…,"n_prompt_tokens":…,"n_ctx":…}}. Codes are words here, where it
// repeats the status.
//
// Threading: pure functions; the dialect is immutable.

#include "base/json.h"
#include "protocol/api/endpoint.h"

namespace reprise::protocol::llama {

Json error_body(const ApiError& error);
const Dialect& dialect();

}  // namespace reprise::protocol::llama
