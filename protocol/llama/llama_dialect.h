#pragma once
// llama-server's error format: OpenAI's, with some other types and with the lengths of prompts that are too
// long: {"error":{"code":…,"message":…,"type":…,"param":…,"n_prompt_tokens":…,"n_ctx":…}}. `code` is a word
// here, where llama-server repeats the status.

#include "base/json.h"
#include "protocol/api/endpoint.h"

namespace reprise::protocol::llama {

Json error_body(const Error& error);
const Dialect& dialect();

}  // namespace reprise::protocol::llama
