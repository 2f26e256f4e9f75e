#pragma once
// What a request came to, with the names that llama-server has for it.
//
// Threading: pure functions.

#include "base/json.h"
#include "protocol/llama/completion_request.h"
#include "protocol/service.h"

namespace reprise::protocol::llama {

/// Of a request, for its reply; `sampling` is what was settled.
Json generation_settings(const SamplingParams& sampling, const CompletionOptions& asked);

/// Of requests that say nothing.
Json default_settings(const ModelCard& card);

}  // namespace reprise::protocol::llama
