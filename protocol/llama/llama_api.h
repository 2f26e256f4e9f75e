#pragma once
// llama-server's API: its paths without /v1, its own completions, and what it tells of itself. Start reading here.
//
//   /completion, /completions, /infill        completion_request.h, completion_reply.h
//   /chat/completions                         as OpenAI's, with its additions (protocol/openai/request.h: Manners)
//   /tokenize, /detokenize, /apply-template, /chat/completions/input_tokens       token_requests.h
//   /props, /slots, /models                   server_facts.h
//   /slots/{id}                               slot_api.h
//
// Threading: immutable; any thread.

#include <memory>
#include <vector>

#include "protocol/api/endpoint.h"
#include "protocol/named_snapshots.h"
#include "protocol/openai/slot_book.h"

namespace reprise::protocol::llama {

struct LlamaSettings {
  bool slots = true;     // GET /slots tells
  bool verbose = false;  // chats are answered with their prompt beside them
  std::shared_ptr<NamedSnapshots> names{};
  std::shared_ptr<openai::SlotBook> slot_book{};
};

std::vector<ApiRoute> routes(const LlamaSettings& settings);

}  // namespace reprise::protocol::llama
