#pragma once
// The table of all APIs that the server offers. Each API has a folder, a declaration here and a row in
// apis.cc.
//
// Threading: any thread; state that routes share is locked.

#include <memory>
#include <vector>

#include "protocol/api/endpoint.h"
#include "protocol/named_snapshots.h"

namespace reprise::protocol {

class SlotRecords;

struct ApiSettings {
  bool slots = true;     // GET /slots lists running requests
  bool verbose = false;  // replies of llama-server chats include their prompt
  // names for from_snapshot and /v1/snapshots; null: the APIs make their own
  std::shared_ptr<NamedSnapshots> names{};
  // running replies (protocol/api/slot_records.h); null: the APIs make their own
  std::shared_ptr<SlotRecords> slot_records{};
};

ApiTable all_apis(const ApiSettings& settings = {});

// The routes of each API. `settings` must have names and slot_records.
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
