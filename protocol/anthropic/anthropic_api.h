#pragma once
// Anthropic's API: messages, and how many tokens they have. Start reading here.
//
// Threading: immutable; any thread.

#include <vector>

#include "protocol/api/endpoint.h"

namespace reprise::protocol::anthropic {

std::vector<ApiRoute> routes();

}  // namespace reprise::protocol::anthropic
