#include "models/arch/rope_keys.h"

namespace reprise::models {

std::shared_ptr<const RopeConfig> read_rope(const ConfigSource& source, const RopeKeys& keys) {
  auto out = std::make_shared<RopeConfig>(source.hf() != nullptr ? read_rope_hf(*source.hf(), keys)
                                                                 : read_rope_gguf(*source.gguf(), keys));
  finish_rope(*out, keys.head_dim, [&](RopeField field, const std::string& reason) {
    switch (field) {
      case RopeField::kTheta:
        return source.fail(kRopeTheta, reason);
      case RopeField::kDimension:
        return source.fail(kRopeDimension, reason);
      case RopeField::kSection:
        return source.fail(kRopeSection, reason);
      case RopeField::kScaling:
        return source.fail(kRopeScaling, reason);
    }
  });
  return out;
}

}  // namespace reprise::models
