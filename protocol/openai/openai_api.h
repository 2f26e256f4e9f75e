#pragma once
// OpenAI's API: chat completions, completions and the list of models. Start reading here.
//
// Threading: immutable; any thread.

#include <memory>
#include <vector>

#include "protocol/api/endpoint.h"
#include "protocol/named_snapshots.h"

namespace reprise::protocol::openai {

/// How OpenAI tells errors.
std::shared_ptr<const Dialect> dialect();

/// `names`: what from_snapshot and /v1/snapshots use.
std::vector<ApiRoute> routes(const std::shared_ptr<NamedSnapshots>& names);

}  // namespace reprise::protocol::openai
