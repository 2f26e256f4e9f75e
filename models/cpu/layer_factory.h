#pragma once
// Builds layers from their descriptions, on the CPU: the one place that knows which class computes which kind
// of part.
//
// Threading: used by one thread while a model is loaded.

#include "models/checkpoint.h"
#include "models/cpu/layers.h"
#include "models/cpu/rope_tables.h"
#include "models/parts/layer_spec.h"
#include "models/parts/part.h"

namespace reprise::models {

class LayerFactory {
 public:
  /// All must outlive the factory; parts declare their state in `state` and the tables they need in `ropes`.
  LayerFactory(const Checkpoint& checkpoint, const ComputeOptions& options, StateLayout& state,
               RopeTables& ropes)
      : checkpoint_(checkpoint), options_(options), state_(state), ropes_(ropes) {}

  /// Throws LoadError.
  Layer build(const LayerSpec& spec);

 private:
  std::unique_ptr<Part> build_part(const AttentionSpec& spec);
  std::unique_ptr<Part> build_part(const DeltaNetSpec& spec);
  std::unique_ptr<Part> build_part(const SelectiveScanSpec& spec);
  std::unique_ptr<Part> build_part(const SwiGluSpec& spec);
  std::unique_ptr<Part> build_part(const MoeSpec& spec);
  std::unique_ptr<Part> build_part(const KdaSpec& spec);
  std::unique_ptr<Part> build_part(const MlaSpec& spec);
  std::unique_ptr<Part> build_part(const RgLruSpec& spec);
  std::unique_ptr<Part> build_part(const TimeMixSpec& spec);
  std::unique_ptr<Part> build_part(const ChannelMixSpec& spec);
  std::unique_ptr<Part> build_part(const Mamba2Spec& spec);
  std::unique_ptr<Part> build_part(const MlpSpec& spec);

  const Checkpoint& checkpoint_;
  const ComputeOptions& options_;
  StateLayout& state_;
  RopeTables& ropes_;
};

}  // namespace reprise::models
