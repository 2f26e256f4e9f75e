#pragma once
// A model on an NVIDIA GPU. Prefill and decode are computed by different kernels and differ in their bits;
// within each, a row depends on its own sequence alone (gpu/cuda/batch.h).
//
// Weights lie in the GPU's arena, bf16 or what their format is kept as (gpu/cuda/formats.h); the residual stream
// and recurrent states are f32, rows between products bf16, or f32 where the model is computed precisely
// (models/cuda/precision.h). Every pass goes into one stream and is waited for, asleep. Where
// experts are on the host (models/host_experts.h), a pass waits for itself at each of their layers, and none is recorded.
//
// Threading: one thread at a time. load() and the destructor touch the arena and belong to the thread that
// owns it.

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu/cuda/device_memory.h"
#include "gpu/cuda/gemm.h"
#include "gpu/cuda/stream.h"
#include "models/cuda/adapter.h"
#include "models/cuda/batch_upload.h"
#include "models/cuda/draw.h"
#include "models/cuda/head.h"
#include "models/cuda/lane.h"
#include "models/cuda/residual.h"
#include "models/cuda/rope_tables.h"
#include "models/cuda/weights.h"
#include "models/host_experts.h"
#include "models/model.h"

namespace reprise::models::cuda {

class CudaModel : public Model {
 public:
  struct Place {
    int device = 0;
    int most_rows = 0;                   // of a prefill step
    gpu::BlockMemory* memory = nullptr;  // in the arena: for adapters; null: they cannot be had
    std::uint32_t cpu_experts = 0;       // as DeviceOptions::cpu_experts
    unsigned threads = 0;                // that compute them; 0: one for each core
  };

  /// `arena`, on the place's device, must outlive the model. Throws LoadError, std::bad_alloc,
  /// gpu::cuda::CudaError.
  static std::unique_ptr<CudaModel> load(const std::filesystem::path& path, const ComputeOptions& options,
                                         gc::Arena& arena, const Place& place);

  CudaModel(Checkpoint checkpoint, const ComputeOptions& options, gc::Arena& arena, const Place& place);

  std::span<const float> forward(std::span<const Slice> slices, Phase phase) override;
  ModelRules rules() const override {
    return {.grid = gc::kGrid,
            .phases_mix = false,
            .decode_is_canonical = false,
            .replays_decoding = false,
            .exports_slots = exports_states_,
            .computes_aside = true};
  }
  void add_adapter(AdapterKey key, const Adapter& adapter) override;
  void remove_adapter(AdapterKey key) override;
  std::uint64_t adapter_bytes(const Adapter& adapter) const override { return DeviceAdapter::bytes(adapter); }
  std::string arithmetic() const override;
  /// In the lane of prefills, which must have nothing under way.
  void compact(const Compaction& compaction) override;
  std::string why_not_compacted() const override;
  void decode(DecodePass& pass) override;
  /// At the same time, on lanes of their own.
  std::span<const float> prefill_beside(std::span<const Slice> prefills, DecodePass& decodes) override;
  /// Vocabularies beyond the kernel's bound are drawn from on the host.
  bool draws() const override;
  void bind_thread() override;

 private:
  struct Logits {
    float* rows = nullptr;  // [count] rows of head_.outputs(), on the GPU
    int count = 0;
    bool are_drawn = false;  // the choice among them is under way already
  };

  struct Buffers {
    float* x = nullptr;  // [padded rows, hidden]: the residual stream
    std::vector<RopeTable> ropes{};
    float* logits = nullptr;      // [picked rows] rows of head_.outputs()
    float* inner = nullptr;       // [rows, largest rank]; null where there are no adapters
    gc::Bf16* ordered = nullptr;  // [padded rows, most columns that are put in order]; null where none are
    gc::TwoTerms terms{};  // [padded rows, most columns] each; none where the model is not computed precisely
    float* first_values = nullptr;  // [padded rows, handed_on_]; null where nothing is handed on
    float* late = nullptr;          // [padded rows, hidden]; null where no part comes late
    gc::UnscaledRows unscaled{};    // [padded rows, hidden]; none where steps leave no rows to each other
  };

  /// What the slices of a step chose.
  struct Chosen {
    std::vector<AdapterRows> rows;
    std::vector<AdapterRows> picked;  // the same, among the rows whose logits are wanted
    int largest_rank = 0;
  };

  /// Lets decoded rows go from the embedding through the steps to the head without kernels for norms, where they can.
  void join_steps();
  Chosen choose(std::span<const Slice> slices) const;
  std::size_t workspace(const StepSize& size, int picked_rows, int rank) const;
  /// Rows of the embedding, where the residual stream begins, and rope's tables.
  void embed(const CudaStep& step, float* x) const;

  // Passes on their way to the GPU (pass.cc).
  struct Pass {
    Lane& lane;
    BatchUpload::Made made;
    Chosen chosen;
    Buffers buffers;
  };
  Pass prepare(Lane& lane, std::span<const Slice> slices, Phase phase);
  CudaStep step_of(const Pass& pass, Phase phase);
  void launch(const Pass& pass, Phase phase);
  std::optional<std::uint64_t> recording_key(const Pass& pass, Phase phase, bool draws) const;
  /// `draw`: what is prepared for the rows of logits, and is to follow them; null: nothing.
  Logits enqueue(std::span<const Slice> slices, Phase phase, DeviceDraw* draw = nullptr);

  Lane& lane_of(Phase phase) { return phase == Phase::kPrefill ? prefill_ : decode_; }
  std::span<const float> fetch(const Logits& logits, std::span<const int> rows, Phase phase);
  std::span<const float> fetch_all(const Logits& logits, Phase phase);
  /// Whether decoded rows are not all computed alike: an adapter changes rows on their way into a product and out of it, so
  /// those that have one do not go from step to step without kernels for norms, and others do. They are computed one after
  /// the other then, so that a row's bits do not depend on what it meets (adapters_apart.cc).
  bool mixes(std::span<const Slice> slices) const;
  std::span<const float> forward_apart(std::span<const Slice> slices);
  void decode_apart(DecodePass& pass);

  /// Rows of slices without a plan; the others are drawn from.
  std::span<const float> fetch_prefilled(const Logits& logits, std::span<const Slice> slices);
  Logits enqueue_decode(const DecodePass& pass);
  void finish_decode(const Logits& logits, DecodePass& pass);
  void show_on_gpu(Phase phase);

  const int device_;
  const bool precise_;
  gc::PrefillGemm gemm_;
  WeightStore weights_;
  DeviceDraw draw_;
  DeviceDraw first_draw_;  // behind prefills
  Lane prefill_{gc::Stream::Priority::kNormal};
  Lane decode_{gc::Stream::Priority::kHigh};  // somebody waits for each of its tokens
  DeviceLinear embedding_;
  Head head_;
  std::optional<DeviceNorm> embedding_norm_;
  std::optional<NormAhead> first_norm_;  // the first step's, where the embedding leaves rows to it
  RopeTables ropes_;
  std::unique_ptr<HostExperts> host_experts_;  // null: all experts are on the GPU
  std::vector<ResidualStep> steps_;            // of all layers
  const std::size_t handed_on_;                // floats of a row that the first layer hands on
  bool has_late_ = false;                      // parts
  bool exports_states_ = true;                 // all parts do
  bool leaves_rows_ = false;                   // of decodes: somebody to who reads the stream next
  gpu::BlockMemory* memory_;
  std::set<std::string> adaptable_;  // matrices that adapters can change
  std::unordered_map<AdapterKey, DeviceAdapter> adapters_;
  std::vector<float> apart_;  // logits of rows that were decoded one group after the other
};

}  // namespace reprise::models::cuda
