#include "models/rg_lru_vectors.h"

#include <cmath>

#include "models/weight_tensors.h"

namespace reprise::models {

std::vector<float> load_rg_lru_rates(const Checkpoint& checkpoint, const RgLruSpec& spec) {
  std::vector<float> values = load_vector(checkpoint, spec.name + ".rg_lru.recurrent_param");
  for (float& value : values) {
    const double x = value;
    value = static_cast<float>(-8.0 * (x > 20.0 ? x : std::log1p(std::exp(x))));
  }
  return values;
}

}  // namespace reprise::models
