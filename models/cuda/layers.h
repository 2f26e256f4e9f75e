#pragma once
// What a layer consists of on the GPU: the parts that a description names (models/layers/layer_spec.h).
//
// Threading: as CudaStep.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/kv_budget.h"
#include "gpu/cuda/attention.h"
#include "gpu/cuda/causal_conv.h"
#include "gpu/cuda/channel_delta.h"
#include "gpu/cuda/delta_net.h"
#include "gpu/cuda/experts.h"
#include "gpu/cuda/kv_selection.h"
#include "gpu/cuda/latent_attention.h"
#include "gpu/cuda/mamba2.h"
#include "gpu/cuda/rg_lru.h"
#include "gpu/cuda/rows.h"
#include "gpu/cuda/selective_scan.h"
#include "gpu/cuda/small_products.h"
#include "models/cuda/mixer.h"
#include "models/cuda/weights.h"
#include "models/host_experts.h"
#include "models/layers/layer_spec.h"

namespace reprise::models::cuda {

class RopeTables;

class Attention : public MixerOfRows<Attention> {
 public:
  Attention(const AttentionSpec& spec, const Checkpoint& checkpoint, gpu::KvType kv, WeightStore& weights,
            StateLayout& state, RopeTables& ropes);
  std::size_t compaction_workspace(std::size_t tokens, const KvBudget& budget) const override;
  void compact(const CudaCompaction& prompt) const override;

 private:
  friend class MixerOfRows<Attention>;
  std::size_t mixing_workspace(const StepSize& size) const override;
  template <class Row>
  void mix_rows(const CudaStep& step, const Row* projected, Row* mixed) const;

  gc::AttentionShape shape_;
  std::size_t queries_ = 0;  // in a row of the prompt's tail
  const float* q_norm_ = nullptr;
  const float* k_norm_ = nullptr;
  std::optional<std::size_t> rope_;  // its table in CudaStep::ropes
};

class GatedDeltaNet : public MixerOfRows<GatedDeltaNet> {
 public:
  GatedDeltaNet(const DeltaNetSpec& spec, const Checkpoint& checkpoint, WeightStore& weights,
                StateLayout& state);

 private:
  friend class MixerOfRows<GatedDeltaNet>;
  std::size_t mixing_workspace(const StepSize& size) const override;
  template <class Row>
  void mix_rows(const CudaStep& step, const Row* projected, Row* mixed) const;

  gc::DeltaNetShape shape_;
  gc::DeltaNetWeights weights_;
};

class SelectiveScan : public MixerOfRows<SelectiveScan> {
 public:
  SelectiveScan(const SelectiveScanSpec& spec, const Checkpoint& checkpoint, WeightStore& weights,
                StateLayout& state);

 private:
  friend class MixerOfRows<SelectiveScan>;
  std::size_t mixing_workspace(const StepSize& size) const override;
  template <class Row>
  void mix_rows(const CudaStep& step, const Row* projected, Row* mixed) const;
  /// Adapters cannot change the one whose inputs are filled up.
  std::vector<InnerProduct> inner_products() const override {
    return {{&x_, gc::GemmOutput::kF32}, {&dt_, gc::GemmOutput::kF32, false}};
  }

  gc::SelectiveScanShape shape_;
  gc::CausalConvShape conv_;
  gc::ScanNormWeights norms_;
  const float* taps_ = nullptr;       // [taps, inner]
  const float* conv_bias_ = nullptr;  // [inner]; null: none
  const float* a_ = nullptr;
  const float* skip_ = nullptr;  // [inner]
  DeviceLinear x_;               // dt, B, C
  DeviceLinear dt_;              // its inputs filled up
};

class Mamba2 : public MixerOfRows<Mamba2> {
 public:
  Mamba2(const Mamba2Spec& spec, const Checkpoint& checkpoint, WeightStore& weights, StateLayout& state);

 private:
  friend class MixerOfRows<Mamba2>;
  std::size_t mixing_workspace(const StepSize& size) const override;
  template <class Row>
  void mix_rows(const CudaStep& step, const Row* projected, Row* mixed) const;

  gc::SsdShape shape_;
  gc::CausalConvShape conv_;
  const float* taps_ = nullptr;       // [taps, channels]
  const float* conv_bias_ = nullptr;  // [channels]; null: none
  const float* dt_bias_ = nullptr;    // [heads]
  const float* decay_ = nullptr;      // [heads]
  const float* skip_ = nullptr;       // [heads]
  const float* norm_ = nullptr;       // [inner]; null: none
  Mamba2Spec spec_;
};

class RgLruBlock : public MixerOfRows<RgLruBlock> {
 public:
  RgLruBlock(const RgLruSpec& spec, const Checkpoint& checkpoint, WeightStore& weights, StateLayout& state);

 private:
  friend class MixerOfRows<RgLruBlock>;
  std::size_t mixing_workspace(const StepSize& size) const override;
  template <class Row>
  void mix_rows(const CudaStep& step, const Row* projected, Row* mixed) const;

  gc::RgLruShape shape_;
  gc::CausalConvShape conv_;
  const float* taps_ = nullptr;       // [taps, width]
  const float* conv_bias_ = nullptr;  // [width]
  gc::BlockWeights input_gate_;
  gc::BlockWeights recurrence_gate_;
  const float* rate_ = nullptr;  // [width]
};

class Kda : public PartOfRows<Kda> {
 public:
  Kda(const KdaSpec& spec, const Checkpoint& checkpoint, WeightStore& weights, StateLayout& state);
  std::size_t workspace(const StepSize& size) const override;
  void admit(const Admission& admission, gc::GemmOutput output) const override;
  std::vector<const DeviceLinear*> adaptable() const override {
    return {&in_, &b_, &f_a_, &f_b_, &g_a_, &g_b_, &out_};
  }

 private:
  friend class PartOfRows<Kda>;
  template <class Row>
  void apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const;

  gc::ChannelDeltaShape shape_;
  gc::CausalConvShape convs_[3];  // of q, k and v
  const float* taps_[3] = {};     // [taps, size] each
  const float* rate_ = nullptr;   // [heads]
  const float* dt_bias_ = nullptr;
  const float* norm_ = nullptr;  // [head_dim]
  NormKind norm_kind_;
  DeviceLinear in_;  // q, k, v
  DeviceLinear b_;
  DeviceLinear f_a_;  // the decay, through a short row
  DeviceLinear f_b_;
  DeviceLinear g_a_;  // the gate, likewise
  DeviceLinear g_b_;
  DeviceLinear out_;
};

/// In the form that models/cpu/mla.h tells of: keys and values are never made.
class Mla : public PartOfRows<Mla> {
 public:
  Mla(const MlaSpec& spec, const Checkpoint& checkpoint, gpu::KvType kv, WeightStore& weights,
      StateLayout& state, RopeTables& ropes);
  std::size_t workspace(const StepSize& size) const override;
  void admit(const Admission& admission, gc::GemmOutput output) const override;
  std::vector<const DeviceLinear*> adaptable() const override;

 private:
  friend class PartOfRows<Mla>;
  template <class Row>
  void apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const;
  template <class Row>
  void project_queries(const CudaStep& step, const PartInput& x, Row* queries) const;

  gc::LatentShape shape_;
  DeviceLinear q_;                   // from x, or from its latent
  std::optional<DeviceLinear> q_a_;  // that latent
  gc::RowNorm q_norm_{};
  DeviceLinear kv_a_;
  const float* norm_ = nullptr;  // [rank], with the latent's scale
  gc::BlockWeights keys_;
  gc::BlockWeights values_;
  DeviceLinear out_;
  std::optional<std::size_t> rope_;  // its table in CudaStep::ropes
};

class Mlp : public PartOfRows<Mlp> {
 public:
  Mlp(const MlpSpec& spec, WeightStore& weights);
  std::size_t workspace(const StepSize& size) const override;
  void admit(const Admission& admission, gc::GemmOutput output) const override;
  std::vector<const DeviceLinear*> adaptable() const override { return {&up_, &down_}; }

 private:
  friend class PartOfRows<Mlp>;
  template <class Row>
  void apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const;

  DeviceLinear up_;
  DeviceLinear down_;
};

class SwiGlu : public Part {
 public:
  SwiGlu(const SwiGluSpec& spec, WeightStore& weights);
  std::size_t workspace(const StepSize& size) const override;
  void apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const override;
  bool takes_raw(const CudaStep& step) const override { return step.takes_raw(in_); }
  bool reads_unscaled() const override {
    return CudaStep::can_gate(in_, out_.weight.columns) && in_.reads_unscaled();
  }
  bool leaves_rows() const override { return out_.leaves_rows(); }
  void admit(const Admission& admission, gc::GemmOutput output) const override;
  std::vector<const DeviceLinear*> adaptable() const override { return {&in_, &out_}; }
  /// Gate and up, and what follows them.
  const DeviceLinear& in() const { return in_; }
  const DeviceLinear& out() const { return out_; }

 private:
  /// inner [padded rows, out().weight.columns], by one product, or by one and a kernel behind it.
  void gate_on_the_way(const CudaStep& step, const PartInput& x, gc::Bf16* inner) const;
  template <class Row>
  void gate(const CudaStep& step, const PartInput& x, Row* inner) const;

  gc::GateFunction act_;
  float gate_factor_;
  DeviceLinear in_;  // gate, up
  DeviceLinear out_;
};

/// The router, the shared expert and what is around them on the GPU; the experts there as well, or on the host.
class Moe : public Part {
 public:
  /// `host`: who computes its experts; null: the GPU does. It must outlive the part.
  Moe(const MoeSpec& spec, const Checkpoint& checkpoint, WeightStore& weights, HostExperts* host);
  bool takes_raw(const CudaStep& step) const override { return step.takes_raw(router_); }
  std::size_t workspace(const StepSize& size) const override;
  void apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const override;
  void admit(const Admission& admission, gc::GemmOutput output) const override;

 private:
  /// What a step has made of its rows so far.
  template <class Row>
  struct Routed {
    const float* logits;  // [padded rows, router_.weight.rows]
    gc::ExpertPlaces places;
    const Row* seen;  // [padded rows, width]: what the chosen experts see
  };
  struct OnDevice {
    gc::ExpertWeights in;  // gate and up, or up alone
    gc::ExpertWeights down;
    /// Whether they have the shared expert's weights too, because it is like the others: of few rows it is one of them.
    bool has_shared = false;
  };

  /// How much the shared expert counts.
  gc::SharedExpert shared_gates(const float* logits) const;
  gc::SharedExpert apply_shared(const CudaStep& step, const PartInput& x, const float* logits) const;
  /// Places of a step, at most.
  std::size_t most_places(const StepSize& size) const;
  template <class Row>
  void apply_routed(const CudaStep& step, const PartInput& x, const float* logits,
                    const gc::ExpertPlaces& places, const PartOutput& to) const;
  template <class Row>
  void apply_on_device(const CudaStep& step, const PartInput& x, const Routed<Row>& routed,
                       const PartOutput& to) const;
  void apply_on_host(const CudaStep& step, const PartInput& x, const Routed<gc::Bf16>& routed,
                     const PartOutput& to) const;
  /// outputs [places, width]: what the experts make of their rows.
  void multiply_experts(const CudaStep& step, const Routed<gc::Bf16>& routed, const OnDevice& experts,
                        float* outputs) const;
  void multiply_experts(const CudaStep& step, const Routed<float>& routed, const OnDevice& experts,
                        float* outputs) const;
  /// What the host makes of the rows, into sums [padded rows, width] on the GPU. `meanwhile` puts into the stream what
  /// the GPU does at the same time.
  template <class Meanwhile>
  void sum_on_host(const CudaStep& step, const Routed<gc::Bf16>& routed, float* sums,
                   const Meanwhile& meanwhile) const;
  /// sums [padded rows, latent size], through the matrix behind the experts.
  void apply_latent_out(const CudaStep& step, const float* sums, const PartOutput& to) const;

  gc::RouterShape shape_;
  bool has_gates_;
  int hidden_;
  int width_;                       // of what goes into the experts and comes out of them
  bool has_shared_gate_;            // else the shared expert counts as it is
  DeviceLinear router_;             // and behind it the shared expert's gate
  const float* bias_ = nullptr;     // [routed]; null: none
  std::optional<OnDevice> device_;  // none: the experts are on the host
  HostExperts* host_;               // null: they are not
  std::size_t host_layer_ = 0;      // that it knows them by
  std::unique_ptr<Part> shared_;    // null: there is none
  std::optional<DeviceLinear> latent_in_;
  std::optional<DeviceLinear> latent_out_;
};

}  // namespace reprise::models::cuda
