#pragma once
// Ollama's API, as far as editors and chat pages use it. Start reading here.
//
//   POST /api/chat, /api/generate       request.h, reply.h: JSON lines unless "stream" is false
//   GET /api/version, /api/tags, /api/ps, POST /api/show       facts.h
//
// Errors are {"error": "…"}.
//
// Threading: immutable; any thread.

#include <vector>

#include "protocol/api/endpoint.h"

namespace reprise::protocol::ollama {

std::vector<ApiRoute> routes();

}  // namespace reprise::protocol::ollama
