#pragma once
// Device-independent description of a layer: a list of steps that each add to the residual. A step normalizes
// the residual, passes it to one or more parts and adds their outputs. A mixer followed by an MLP is two
// steps of one part each; parallel mixers are one step of two parts. Outputs of late parts are added after
// the last step of the layer (a shortcut around the steps between).
//
// A new kind of part needs a header (models/parts/part.h), an alternative of PartSpec, and a make_part() for
// each device (models/cpu/part.h, models/cuda/part.h).

#include <algorithm>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "models/parts/attention.h"
#include "models/parts/feed_forward.h"
#include "models/parts/gated_delta_net.h"
#include "models/parts/kda.h"
#include "models/parts/mamba2.h"
#include "models/parts/mla.h"
#include "models/parts/moe.h"
#include "models/parts/part.h"
#include "models/parts/rg_lru.h"
#include "models/parts/rwkv.h"
#include "models/parts/selective_scan.h"

namespace reprise::models {

/// One part of a layer. `reprise inspect` prints kinds in this order.
using PartSpec = std::variant<SwiGluSpec,         //
                              MlpSpec,            //
                              MoeSpec,            //
                              AttentionSpec,      //
                              GatedDeltaNetSpec,  //
                              SelectiveScanSpec,  //
                              RgLruSpec,          //
                              TimeMixSpec,        //
                              ChannelMixSpec,     //
                              KdaSpec,            //
                              MlaSpec,            //
                              Mamba2Spec>;

/// Factors on the input and the output of a part.
struct PartScale {
  float in = 1;
  float out = 1;

  bool operator==(const PartScale&) const = default;
};

/// x += multiplier * norm_after(out * part(in * norm(x)) + out * part(in * norm(x)) + ...)
struct ResidualSpec {
  std::optional<NormSpec> norm{};   // none: the parts read x itself
  std::vector<PartSpec> parts{};    // at least one
  std::vector<PartScale> scales{};  // one per part; empty: all are 1
  /// Parts with the same input; their outputs are added, unscaled and without norm_after, after the last step
  /// of the layer.
  std::vector<PartSpec> late_parts{};
  std::optional<NormSpec> norm_after{};
  float multiplier = 1;

  bool operator==(const ResidualSpec&) const = default;
};

struct LayerSpec {
  std::vector<ResidualSpec> steps{};

  bool operator==(const LayerSpec&) const = default;
};

/// Calls visit(part) for every part, late parts included, in layer order.
template <class Visit>
void for_parts(std::span<const LayerSpec> layers, const Visit& visit) {
  for (const LayerSpec& layer : layers) {
    for (const ResidualSpec& step : layer.steps) {
      for (const PartSpec& part : step.parts) visit(part);
      for (const PartSpec& part : step.late_parts) visit(part);
    }
  }
}

/// Returns all parts of one kind in the order of for_parts(). The pointers are valid as long as `layers`.
template <class Spec>
std::vector<const Spec*> parts_of(std::span<const LayerSpec> layers) {
  std::vector<const Spec*> out;
  for_parts(layers, [&](const PartSpec& part) {
    if (const Spec* spec = std::get_if<Spec>(&part)) out.push_back(spec);
  });
  return out;
}

/// Returns the floats per row that the first layer passes to later layers (RWKV-7 values); 0: none.
inline std::size_t handed_on(std::span<const LayerSpec> layers) {
  std::size_t most = 0;
  for (const TimeMixSpec* part : parts_of<TimeMixSpec>(layers)) most = std::max(most, part->hidden);
  return most;
}

}  // namespace reprise::models
