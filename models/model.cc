#include "models/model.h"

#include "base/check.h"
#include "models/files/load_error.h"

namespace reprise::models {

void Model::add_adapter(AdapterKey, const Adapter& adapter) {
  throw LoadError(adapter.path(), "", "adapters are not supported on this device");
}

void Model::compact(const Compaction&) {
  REPRISE_CHECK(false, "a prompt was compacted on a device that cannot compact");
}

std::string Model::why_not_compacted() const {
  return "its device cannot compact keys and values";
}

}  // namespace reprise::models
