#pragma once
// OpenAI's API: chat completions, completions and the list of models. Start reading here.
//
// Threading: immutable; any thread.

#include <memory>
#include <vector>

#include "protocol/api/endpoint.h"

namespace reprise::protocol::openai {

/// How OpenAI tells errors.
std::shared_ptr<const Dialect> dialect();

std::vector<ApiRoute> routes();

}  // namespace reprise::protocol::openai
