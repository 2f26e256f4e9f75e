#pragma once
// A feed-forward part without a gate on the CPU (models/parts/feed_forward.h): down(relu(up(x))^2).
//
// Threading: as Step.

#include "models/cpu/layers.h"
#include "models/cpu/linear.h"
#include "models/parts/feed_forward.h"

namespace reprise::models {

class Mlp : public Part {
 public:
  /// Throws LoadError.
  Mlp(const MlpSpec& spec, const Checkpoint& checkpoint);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    up_.prepare(how);
    down_.prepare(how);
  }
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"MLP"};
    return kSite;
  }

 private:
  Linear up_;
  Linear down_;
};

}  // namespace reprise::models
