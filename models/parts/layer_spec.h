#pragma once
// A layer, as a model describes it and before any device has built it: steps that each add to the residual
// stream, one after the other. A step reads the stream through a norm, gives what it read to one or more
// parts, and adds up what they make of it. So a mixer and a feed-forward part in turn are two steps of one
// part; mixers side by side are one step of two parts; a layer may have two mixers, or no feed-forward part.
// What some parts of a step make may come late: it is added behind the last step of the layer (a shortcut around
// the steps between).
//
// A part says its own sizes and names its own tensors: layers of a model may differ, and no device needs to
// know more than the description. A new kind of part is an alternative of PartSpec, a file beside attention.h
// (models/parts/part.h), and a make_part() of each device (models/cpu/part.h, models/cuda/part.h).
//
// Threading: plain values.

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

/// In the order in which `reprise inspect` prints them.
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

/// What a part is given is multiplied by the one, what it makes of it by the other.
struct PartScale {
  float in = 1;
  float out = 1;

  bool operator==(const PartScale&) const = default;
};

/// x += multiplier * norm_after(out * part(in * norm(x)) + out * part(in * norm(x)) + ...)
struct ResidualSpec {
  std::optional<NormSpec> norm{};   // none: the parts read x itself
  std::vector<PartSpec> parts{};    // at least one
  std::vector<PartScale> scales{};  // of the parts, in their order; empty: all are 1
  /// They read what `parts` read; x += part(norm(x)) of each behind all steps of the layer, without more ado.
  std::vector<PartSpec> late_parts{};
  std::optional<NormSpec> norm_after{};
  float multiplier = 1;

  bool operator==(const ResidualSpec&) const = default;
};

struct LayerSpec {
  std::vector<ResidualSpec> steps{};

  bool operator==(const LayerSpec&) const = default;
};

/// Calls visit(part) for every part, in the order of the layers.
template <class Visit>
void for_parts(std::span<const LayerSpec> layers, const Visit& visit) {
  for (const LayerSpec& layer : layers) {
    for (const ResidualSpec& step : layer.steps) {
      for (const PartSpec& part : step.parts) visit(part);
      for (const PartSpec& part : step.late_parts) visit(part);
    }
  }
}

/// All parts of one kind, in the same order; they live as long as `layers`.
template <class Spec>
std::vector<const Spec*> parts_of(std::span<const LayerSpec> layers) {
  std::vector<const Spec*> out;
  for_parts(layers, [&](const PartSpec& part) {
    if (const Spec* spec = std::get_if<Spec>(&part)) out.push_back(spec);
  });
  return out;
}

/// Floats of a row that a part of the first layer hands on to those behind it; 0: none does.
inline std::size_t handed_on(std::span<const LayerSpec> layers) {
  std::size_t most = 0;
  for (const TimeMixSpec* part : parts_of<TimeMixSpec>(layers)) most = std::max(most, part->hidden);
  return most;
}

}  // namespace reprise::models
