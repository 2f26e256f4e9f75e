#pragma once
// Grouped-query attention on the CPU (models/parts/attention.h), over keys and values in pages, or in a ring of
// pages in the slot.
//
// Threading: as Step.

#include "models/cpu/layers.h"
#include "models/cpu/linear.h"
#include "models/cpu/rope_tables.h"
#include "models/parts/attention.h"

namespace reprise::models {

class Attention : public Part {
 public:
  /// Throws LoadError.
  Attention(const AttentionSpec& spec, const Checkpoint& checkpoint, const ComputeOptions& options,
            StateLayout& state, RopeTables& ropes);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    for (const Linear* linear : {&q_, &k_, &v_, &o_}) linear->prepare(how);
  }
  void compact(const CompactionStep& step) const override;
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"attention"};
    return kSite;
  }

 private:
  void split_gate(Step& step, const float* projected, float* q, float* gate) const;
  void norm_and_rotate(Step& step, const std::optional<RmsNorm>& norm, float* heads,
                       std::size_t per_row) const;
  void store(Step& step, const float* values, std::size_t rows, std::size_t position, std::byte* page) const;
  void remember_queries(Step& step, const float* q) const;
  void attend_pages(Step& step, const float* q, const float* k, const float* v, float* mixed) const;
  void attend_ring(Step& step, const float* q, const float* k, const float* v, float* mixed) const;

  const AttentionSpec spec_;
  const std::size_t rope_;  // its table; without meaning where the spec has no rope
  const gpu::KvType kv_;
  const float scale_;
  Linear q_;
  Linear k_;
  Linear v_;
  Linear o_;
  std::optional<RmsNorm> q_norm_;
  std::optional<RmsNorm> k_norm_;
  AttentionPlaces places_;
};

}  // namespace reprise::models
