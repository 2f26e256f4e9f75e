#include "models/kda_vectors.h"

#include <cmath>

#include "models/weight_tensors.h"

namespace reprise::models {

std::vector<float> load_kda_rates(const Checkpoint& checkpoint, const KdaSpec& spec) {
  std::vector<float> rates = load_vector(checkpoint, spec.name + ".A_log");
  for (float& rate : rates) rate = static_cast<float>(std::exp(static_cast<double>(rate)));
  return rates;
}

}  // namespace reprise::models
