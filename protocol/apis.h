#pragma once
// The APIs that are served: the one place that knows them all. Each has a folder, with a line here and a row in apis.cc.
//
// Threading: pure functions; what routes keep is guarded.

#include <memory>
#include <vector>

#include "protocol/api/endpoint.h"
#include "protocol/named_snapshots.h"

namespace reprise::protocol {

class SlotBook;

struct ApiSettings {
  bool slots = true;     // GET /slots tells how long the requests are that run
  bool verbose = false;  // llama-server's chats are answered with their prompt beside them
  std::shared_ptr<NamedSnapshots>
      names{};                            // of from_snapshot and /v1/snapshots; null: the APIs make their own
  std::shared_ptr<SlotBook> slot_book{};  // where replies are noted (protocol/api/slot_book.h); null: as well
};

ApiTable all_apis(const ApiSettings& settings = {});

// Each API's own; names and book must be there.
namespace openai {
std::vector<ApiRoute> routes(const ApiSettings& settings);
}
namespace ollama {
std::vector<ApiRoute> routes(const ApiSettings& settings);
}
namespace anthropic {
std::vector<ApiRoute> routes(const ApiSettings& settings);
}
namespace responses {
std::vector<ApiRoute> routes(const ApiSettings& settings);
}
namespace llama {
std::vector<ApiRoute> routes(const ApiSettings& settings);
}

}  // namespace reprise::protocol
