#pragma once
// OpenAI's API: chat completions, completions and the list of models. Start reading here.
//
// Threading: immutable; any thread.

#include <memory>
#include <vector>

#include "protocol/api/endpoint.h"
#include "protocol/named_snapshots.h"
#include "protocol/openai/slot_book.h"

namespace reprise::protocol::openai {

/// How OpenAI tells errors.
std::shared_ptr<const Dialect> dialect();

/// `names`: what from_snapshot and /v1/snapshots use. `slots`: where replies are noted (protocol/openai/slot_book.h).
std::vector<ApiRoute> routes(const std::shared_ptr<NamedSnapshots>& names,
                             const std::shared_ptr<SlotBook>& slots);

}  // namespace reprise::protocol::openai
