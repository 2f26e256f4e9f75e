#pragma once
// The APIs that are served: the one place that knows them all.
//
// Threading: a pure function.

#include "protocol/api/endpoint.h"

namespace reprise::protocol {

struct ApiSettings {
  bool slots = true;     // GET /slots tells how long the requests are that run
  bool verbose = false;  // llama-server's chats are answered with their prompt beside them
};

ApiTable all_apis(const ApiSettings& settings = {});

}  // namespace reprise::protocol
