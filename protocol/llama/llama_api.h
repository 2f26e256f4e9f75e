#pragma once
// What llama-server has beside OpenAI's API: /tokenize, /detokenize and /apply-template. Errors are told as
// OpenAI does.
//
// Threading: immutable; any thread.

#include <vector>

#include "protocol/api/endpoint.h"

namespace reprise::protocol::llama {

std::vector<ApiRoute> routes();

}  // namespace reprise::protocol::llama
