#pragma once
// What a decoder layer consists of: a mixer, which looks along the sequence and keeps state, and a
// feed-forward part, which looks at one row. Architectures are lists of these.
//
// A mixer declares its state when it is built (StateLayout) and finds it in the step's slices by the offsets
// it was given; it updates the state of each slice by exactly the slice's rows. Nothing else of the engine
// knows what the state is.
//
// Threading: as Step.

#include <memory>
#include <string>
#include <vector>

#include "models/cpu/step.h"

namespace reprise::models {

class Mixer {
 public:
  virtual ~Mixer() = default;
  /// x, y [step.rows, hidden]
  virtual void apply(Step& step, const float* x, float* y) const = 0;
};

class FeedForward {
 public:
  virtual ~FeedForward() = default;
  /// x, y [rows, hidden]
  virtual void apply(Step& step, const float* x, std::size_t rows, float* y) const = 0;
};

/// y = x / rms(x) * (offset + weight), on rows.
struct RmsNorm {
  std::vector<float> weight;
  float offset = 0;
  float eps = 1e-6F;

  void apply(Step& step, const float* x, std::size_t rows, float* y) const;
};

/// x += mixer(norm(x)); x += feed_forward(norm(x))
struct Layer {
  RmsNorm mixer_norm;
  std::unique_ptr<Mixer> mixer;
  RmsNorm feed_forward_norm;
  std::unique_ptr<FeedForward> feed_forward;

  void apply(Step& step, float* x, std::size_t hidden) const;
};

}  // namespace reprise::models
