#include "models/model.h"

#include "models/files/load_error.h"

namespace reprise::models {

void Model::add_adapter(AdapterKey, const Adapter& adapter) {
  throw LoadError(adapter.path(), "", "adapters are not computed on this device");
}

}  // namespace reprise::models
