#pragma once
// Builds layers from their descriptions, on the GPU: the one place that knows which class computes which kind
// of part. What is not computed on a GPU is refused, by name.
//
// Threading: used by one thread while a model is loaded.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "models/checkpoint.h"
#include "models/cuda/layers.h"
#include "models/cuda/residual.h"
#include "models/cuda/rope_tables.h"
#include "models/cuda/weights.h"
#include "models/host_experts.h"
#include "models/parts/layer_spec.h"
#include "models/parts/part.h"

namespace reprise::models::cuda {

/// The mixtures whose experts are computed on the host, by name, and who computes them; none: null.
struct MixturesOnHost {
  std::set<std::string> names;
  HostExperts* experts = nullptr;
};

class LayerFactory {
 public:
  /// All must outlive the factory; parts declare their state in `state` and the tables they need in `ropes`. Keys and
  /// values are kept as `kv`. The host's experts must outlive the parts.
  LayerFactory(const Checkpoint& checkpoint, gpu::KvType kv, WeightStore& weights, StateLayout& state,
               RopeTables& ropes, MixturesOnHost on_host)
      : checkpoint_(checkpoint),
        kv_(kv),
        weights_(weights),
        state_(state),
        ropes_(ropes),
        on_host_(std::move(on_host)) {}

  /// The steps of a layer, in order. Throws LoadError, std::bad_alloc.
  std::vector<ResidualStep> build(const LayerSpec& spec);

  /// Throws LoadError, std::bad_alloc.
  DeviceNorm build_norm(const NormSpec& spec);

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
  const gpu::KvType kv_;
  WeightStore& weights_;
  StateLayout& state_;
  RopeTables& ropes_;
  const MixturesOnHost on_host_;
};

}  // namespace reprise::models::cuda
