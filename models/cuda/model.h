#pragma once
// A model instance on an NVIDIA GPU. Prefill and decode use different kernels and differ in their bits;
// within each, a row depends only on its own sequence (gpu/cuda/rows/batch.h).
//
// Weights are in the GPU's arena, as bf16 or in the GPU format of their file format (gpu/cuda/gemm/formats.h). The
// residual and recurrent states are f32; rows between GEMMs are bf16, or f32 in precise models
// (computes_precisely() in model.cc). A pass is enqueued in one stream, and the host sleeps until it is done.
// If experts are on the host (models/host_experts.h), the host waits at each of their layers, and no CUDA
// graphs are recorded.
//
// Threading: one thread at a time. load() and the destructor use the arena and belong to the thread that owns
// it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu/cuda/attention/kv_selection.h"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/memory/device_memory.h"
#include "gpu/cuda/memory/graph.h"
#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"
#include "models/cuda/adapter.h"
#include "models/cuda/part.h"
#include "models/cuda/step.h"
#include "models/cuda/weights.h"
#include "models/host_experts.h"
#include "models/model.h"

namespace reprise::models::cuda {

gc::QueryRing ring_of(const PromptTail& tail);

/// Builds the batch description of a step (gpu/cuda/rows/batch.h) from slices, and copies it to the GPU in one
/// transfer.
///
/// The result of make() is valid until the next call, which must not come before the stream is done with it;
/// its pointers are to GPU memory that bring() fills.
class BatchUpload {
 public:
  struct Made {
    gc::Batch batch;
    StepSize size;
    const std::int32_t* picked = nullptr;  // [picked_rows]: rows whose logits are wanted
    int picked_rows = 0;
    const gc::QueryRing* rings = nullptr;  // [slices]; null: no prompt in the batch will be compacted
    gc::SlotExports exports{};
    std::size_t bytes = 0;      // of the whole description
    std::size_t max_bytes = 0;  // max over batches with the same counts and `longest`
  };

  /// Pads a prefill to a multiple of the grid with rows of no slice, and rounds `longest` up to a power of
  /// two. All offsets except those inside the page list depend only on the counts of slices, tiles, rows and
  /// picked rows and on whether there are rings, so one recorded CUDA graph serves many batches.
  Made make(std::span<const Slice> slices, Phase phase);
  /// Enqueues the copy of the first `bytes`. Pass max_bytes, whose last bytes may be unspecified, only if
  /// fits_recording().
  void copy_to_gpu(std::size_t bytes, gc::StreamHandle stream) const;
  /// Returns whether a recorded graph can include the copy, whose size must be that of the largest batch it
  /// serves.
  static bool fits_recording(const Made& made) { return made.max_bytes <= kMaxRecorded; }
  /// Increases when the GPU memory is reallocated.
  std::uint64_t moves() const { return moves_; }

 private:
  static constexpr std::size_t kMaxRecorded = std::size_t{32} << 10;

  gc::PinnedBytes staging_;
  gc::DeviceBytes device_;
  std::uint64_t moves_ = 0;
};

/// Resources of one pass: stream, batch description, memory for activations and logits, recorded CUDA graphs.
/// There is one context per phase, so that a prefill and a decode of different sequences run concurrently. A
/// context has at most one pass in flight.
struct PhaseContext {
  explicit PhaseContext(gc::Stream::Priority priority) : stream(priority) {}

  /// Drops the recorded graphs if memory whose addresses they contain was reallocated. `others`: the moves()
  /// of such memory outside the context.
  void forget_moved(std::uint64_t others) {
    const std::uint64_t moves = upload.moves() + workspace.moves() + others;
    if (moves == recorded_at) return;
    recordings.clear();
    recorded_at = moves;
  }

  /// The inputs of CudaModel::workspace(); consecutive passes often have the same.
  struct Space {
    StepSize size;
    int picked_rows = 0;
    int rank = 0;

    bool operator==(const Space&) const = default;
  };

  gc::Stream stream;
  gc::Stopwatch stopwatch;
  bool is_timed = false;  // the current pass
  Space space;
  std::size_t space_bytes = 0;  // workspace for `space`; 0: not known
  BatchUpload upload;
  Workspace workspace;
  HostStaging staging{stream};
  gc::GraphCache recordings;  // by the sizes of a pass
  std::uint64_t recorded_at = 0;
  gc::PinnedBytes logits;  // host copy
};

/// Rows of a step whose logits are wanted.
struct PickedRows {
  const std::int32_t* rows;  // [count] row indices, ascending, in GPU memory
  int count;
  std::span<const AdapterRows> adapters;  // indices are among the picked rows

  /// Returns the bytes of the workspace that Head::apply() takes.
  static std::size_t workspace(std::size_t count, std::size_t hidden, const StepSize& size) {
    return Workspace::rounded(count * hidden * size.element()) +
           Workspace::rounded(count * hidden / 8 * sizeof(float)) +
           (size.precise ? 2 * Workspace::rounded(count * hidden * sizeof(gc::Bf16)) : 0);
  }
};

/// Final norm, LM head, and the scale and cap of the logits.
///
/// If the last step defers its norm in decode (DeferredNormRows), the LM head finishes it. That depends only on
/// the model and its adapters, so within a phase a row's logits do not depend on the number of rows.
struct Head {
  DeviceNorm norm;
  DeviceLinear linear;
  float multiplier = 1;
  float cap = 0;  // soft cap of the logits; 0: none

  /// The vocabulary size, rounded up.
  int outputs() const { return linear.weight.rows; }
  bool can_read_unscaled() const { return norm.can_use_decoding() && linear.reads_unscaled(); }
  /// Enables deferred-norm input in steps with CudaStep::unscaled. Returns the norm for the writer.
  NormAhead read_unscaled() {
    reads_unscaled_ = true;
    return {.norm = norm.rows(), .factor = 1};
  }

  /// Computes logits f32 [picked rows, outputs] from x f32 [padded rows, hidden].
  void apply(const CudaStep& step, const float* x, const PickedRows& picked, float* logits) const;

 private:
  bool reads_unscaled_ = false;  // the last step writes its input

  void multiply_unscaled(const CudaStep& step, const PickedRows& picked, float* logits) const;
  template <class Row>
  void multiply_normed(const CudaStep& step, const float* x, const PickedRows& picked, float* logits) const;
  /// The GEMM without bias and adapters. Both phases use the decode form, so that a row's logits do not
  /// depend on the number of rows.
  void multiply(const CudaStep& step, const gc::Bf16* x, int rows, float* logits) const;
  void multiply(const CudaStep& step, const float* x, int rows, float* logits) const;
};

/// Samples tokens on the GPU: uploads sampling plans and returns tokens; logits are not copied to the host.
///
/// Parameters and results are in pinned memory that the kernel accesses. results() is valid between a wait
/// for the stream and the next launch.
class DeviceSampler {
 public:
  /// Sets the plans of the next launch(). Requires: the grammar masks of the plans are ready.
  void prepare(std::span<const std::optional<SamplePlan>> plans, int vocab);
  /// Samples from `logits`, f32 on the GPU with rows `stride` apart, one per plan. Adjusts them in place;
  /// rows without a plan stay unchanged. The enqueued work depends only on rows() and moves().
  void launch(float* logits, int stride, gc::StreamHandle stream);
  void launch(float* logits, int stride, int vocab, std::span<const std::optional<SamplePlan>> plans,
              gc::StreamHandle stream) {
    prepare(plans, vocab);
    launch(logits, stride, stream);
  }
  int rows() const { return rows_; }
  /// Increases when memory that a launch uses is reallocated.
  std::uint64_t moves() const { return moves_; }
  /// Returns one result per plan; nullopt if there was none.
  std::vector<std::optional<DecodePass::Drawn>> results(
      std::span<const std::optional<SamplePlan>> plans) const;

 private:
  gc::PinnedBytes params_;
  gc::PinnedBytes adjustments_;
  gc::PinnedBytes masks_;
  gc::PinnedBytes out_;
  gc::DeviceBytes workspace_;
  std::uint64_t moves_ = 0;
  int rows_ = 0;
  int vocab_ = 0;
};

class CudaModel : public Model {
 public:
  struct Placement {
    int device = 0;
    int max_rows = 0;                    // max rows of a prefill step
    gpu::BlockMemory* memory = nullptr;  // memory for adapters, in the arena; null: no adapters
    std::uint32_t cpu_experts = 0;       // as DeviceOptions::cpu_experts
    unsigned threads = 0;                // CPU threads for experts on the host; 0: one per core
  };

  /// `arena`, on placement.device, must outlive the model. Throws LoadError, std::bad_alloc,
  /// gpu::cuda::CudaError.
  static std::unique_ptr<CudaModel> load(const std::filesystem::path& path, const ComputeOptions& options,
                                         gc::Arena& arena, const Placement& placement);

  CudaModel(ModelFiles files, const ComputeOptions& options, gc::Arena& arena, const Placement& placement);

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
  /// Uses the prefill context, which must be idle.
  void compact(const Compaction& compaction) override;
  std::string why_not_compacted() const override;
  void decode(DecodePass& pass) override;
  /// Runs both passes concurrently, each on its own context.
  std::span<const float> prefill_and_decode(std::span<const Slice> prefills, DecodePass& decodes) override;
  /// Returns whether tokens are sampled on the GPU, which limits the vocabulary.
  bool draws() const override;
  void bind_thread() override;

 private:
  struct Logits {
    float* rows = nullptr;  // [count] rows of head_.outputs(), on the GPU
    int count = 0;
    bool are_drawn = false;  // sampling is already enqueued
  };

  struct Buffers {
    float* x = nullptr;  // [padded rows, hidden]: the residual
    std::vector<RopeTable> ropes{};
    float* logits = nullptr;          // [picked rows, head_.outputs()]
    float* inner = nullptr;           // [rows, largest rank]; null: no adapters
    gc::Bf16* ordered = nullptr;      // [padded rows, max permuted columns]; null: none
    gc::TwoTerms terms{};             // [padded rows, max columns] each; null if not precise
    float* first_values = nullptr;    // [padded rows, handed_on_]; null if that is 0
    float* late = nullptr;            // [padded rows, hidden]; null: no late parts
    gc::DeferredNormRows unscaled{};  // [padded rows, hidden]; x null: no deferred norms
  };

  struct Chosen {
    std::vector<AdapterRows> rows;
    std::vector<AdapterRows> picked;  // indexed by picked row
    int max_rank = 0;
  };

  /// Defers norms between the embedding, the steps and the LM head in decode, wherever both sides support it.
  void join_steps();
  Chosen choose(std::span<const Slice> slices) const;
  std::size_t workspace(const StepSize& size, int picked_rows, int rank) const;
  /// Writes the embeddings of the step's tokens to x and computes the RoPE tables.
  void embed(const CudaStep& step, float* x) const;

  struct Pass {
    PhaseContext& context;
    BatchUpload::Made made;
    Chosen chosen;
    Buffers buffers;
  };
  Pass prepare(PhaseContext& context, std::span<const Slice> slices, Phase phase);
  CudaStep step_of(const Pass& pass, Phase phase);
  void launch(const Pass& pass, Phase phase);
  std::optional<std::uint64_t> recording_key(const Pass& pass, Phase phase, bool draws) const;
  /// Enqueues a pass. `draw`: the sampling that follows its logits; null: none.
  Logits enqueue(std::span<const Slice> slices, Phase phase, DeviceSampler* draw = nullptr);

  PhaseContext& context_of(Phase phase) { return phase == Phase::kPrefill ? prefill_ : decode_; }
  std::span<const float> fetch(const Logits& logits, std::span<const int> rows, Phase phase);
  std::span<const float> fetch_all(const Logits& logits, Phase phase);
  /// Returns whether a decode batch has rows with and without adapters that must be computed in separate
  /// passes: an adapter needs the inputs and outputs of GEMMs, so its rows cannot use deferred norms, and a
  /// row's bits must not depend on its batch.
  bool mixes(std::span<const Slice> slices) const;
  std::span<const float> forward_apart(std::span<const Slice> slices);
  void decode_apart(DecodePass& pass);

  /// Returns the logits of slices without a sampling plan; samples the others.
  std::span<const float> fetch_prefilled(const Logits& logits, std::span<const Slice> slices);
  Logits enqueue_decode(const DecodePass& pass);
  void finish_decode(const Logits& logits, DecodePass& pass);
  void trace_pass(Phase phase);

  const int device_;
  const bool precise_;
  gc::PrefillGemm gemm_;
  WeightStore weights_;
  DeviceSampler draw_;
  DeviceSampler first_draw_;  // after prefills
  PhaseContext prefill_{gc::Stream::Priority::kNormal};
  PhaseContext decode_{gc::Stream::Priority::kHigh};  // prioritized: clients wait for each token
  DeviceLinear embedding_;
  Head head_;
  std::optional<DeviceNorm> embedding_norm_;
  std::optional<NormAhead> first_norm_;  // the first step's, if the embedding defers it
  RopeTables ropes_;
  std::unique_ptr<HostExperts> host_experts_;  // null: all experts are on the GPU
  std::vector<ResidualStep> steps_;            // of all layers
  const std::size_t handed_on_;                // floats per row that the first layer passes to later ones
  bool has_late_ = false;                      // late parts exist
  bool exports_states_ = true;                 // of all parts
  bool defers_norm_ = false;                   // some norm is deferred in decode
  gpu::BlockMemory* memory_;
  std::set<std::string> adaptable_;  // names of matrices that adapters can change
  std::unordered_map<AdapterKey, DeviceAdapter> adapters_;
  std::vector<float> apart_;  // logits of the last separate passes (mixes())
};

}  // namespace reprise::models::cuda
