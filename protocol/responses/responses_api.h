#pragma once
// OpenAI's Responses: to make one, to read a stored one and to delete it, to compact a conversation, to count the tokens
// of a prompt. Start reading here.
//
// Threading: what is stored is guarded; any thread.

#include <vector>

#include "protocol/api/endpoint.h"

namespace reprise::protocol::responses {

/// Each call makes a store of its own.
std::vector<ApiRoute> routes();

}  // namespace reprise::protocol::responses
