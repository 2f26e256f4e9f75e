#include "models/conv_taps.h"

#include "models/checkpoint.h"
#include "models/weight_tensors.h"

namespace reprise::models {

std::vector<float> load_conv_taps(const Checkpoint& checkpoint, const std::string& name) {
  const std::size_t taps = checkpoint.tensor(name).shape.back();
  const std::vector<float> stored = load_vector(checkpoint, name);
  const std::size_t channels = stored.size() / taps;
  std::vector<float> out(stored.size());
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t j = 0; j < taps; ++j) out[j * channels + c] = stored[c * taps + j];
  }
  return out;
}

}  // namespace reprise::models
