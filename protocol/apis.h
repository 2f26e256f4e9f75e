#pragma once
// The APIs that are served: the one place that knows them all.
//
// Threading: a pure function.

#include <memory>

#include "protocol/api/endpoint.h"
#include "protocol/named_snapshots.h"

namespace reprise::protocol {

struct ApiSettings {
  bool slots = true;                        // GET /slots tells how long the requests are that run
  bool verbose = false;                     // llama-server's chats are answered with their prompt beside them
  std::shared_ptr<NamedSnapshots> names{};  // null: the APIs make their own
};

ApiTable all_apis(const ApiSettings& settings = {});

}  // namespace reprise::protocol
