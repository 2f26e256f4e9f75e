#pragma once
// A model on an NVIDIA GPU. Prefill and decode are computed by different kernels and differ in their bits;
// within each, a row depends on its own sequence alone (gpu/cuda/batch.h).
//
// Weights lie in the GPU's arena, bf16 or what their format is kept as (gpu/cuda/formats.h); the residual stream
// and recurrent states are f32, rows between products bf16, or f32 where the model is computed precisely
// (computes_precisely() in model.cc). Every pass goes into one stream and is waited for, asleep. Where
// experts are on the host (models/host_experts.h), a pass waits for itself at each of their layers, and none is recorded.
//
// Threading: one thread at a time. load() and the destructor touch the arena and belong to the thread that
// owns it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/device_memory.h"
#include "gpu/cuda/gemm.h"
#include "gpu/cuda/graph.h"
#include "gpu/cuda/kv_selection.h"
#include "gpu/cuda/stream.h"
#include "models/cuda/adapter.h"
#include "models/cuda/part.h"
#include "models/cuda/step.h"
#include "models/cuda/weights.h"
#include "models/host_experts.h"
#include "models/model.h"

namespace reprise::models::cuda {

/// As kernels see it.
gc::QueryRing ring_of(const PromptTail& tail);

/// Brings the description of a step to the GPU in one copy: gpu/cuda/batch.h from slices of sequences.
///
/// What make() gave is valid until the next call, which must not come before the stream has done with it; what lies on the GPU
/// is so behind bring().
class BatchUpload {
 public:
  struct Made {
    gc::Batch batch;
    StepSize size;
    const std::int32_t* picked = nullptr;  // [picked_rows] rows of which logits are wanted
    int picked_rows = 0;
    const gc::QueryRing* rings = nullptr;  // [slices]; null: no slice's prompt will be compacted
    gc::SlotExports exports{};
    std::size_t bytes = 0;       // of it all
    std::size_t most_bytes = 0;  // of another one whose numbers and `longest` are the same
  };

  /// Rows of a prefill are filled up to a multiple of the grid with ones of no slice, and `longest` is rounded up to one
  /// of few values. Where everything but the pages lies depends on the numbers of slices, tiles, rows and picked rows
  /// alone, and on whether there are rings: so one recording of a step serves many.
  Made make(std::span<const Slice> slices, Phase phase);
  /// That many of the bytes, or anything behind them, where most_bytes are asked for and fits_recording().
  void bring(std::size_t bytes, gc::StreamHandle stream) const;
  /// Whether a recording can bring them, whose length is that of the longest that it serves.
  static bool fits_recording(const Made& made) { return made.most_bytes <= kMostRecorded; }
  /// Grows when the memory on the GPU has been replaced.
  std::uint64_t moves() const { return moves_; }

 private:
  static constexpr std::size_t kMostRecorded = std::size_t{32} << 10;

  gc::PinnedBytes staging_;
  gc::DeviceBytes device_;
  std::uint64_t moves_ = 0;
};

/// What a pass needs of its own while it is under way: a stream, the description of its batch, memory for activations and
/// logits, and the recordings of such passes. There is one lane for each phase, so that a prefill and a decode of different
/// sequences are computed at the same time. A lane has one pass at a time.
struct Lane {
  explicit Lane(gc::Stream::Priority priority) : stream(priority) {}

  /// Recordings name memory: after it has moved they are of no use. `others`: how often that has which is not the lane's.
  void forget_moved(std::uint64_t others) {
    const std::uint64_t moves = upload.moves() + workspace.moves() + others;
    if (moves == recorded_at) return;
    recordings.clear();
    recorded_at = moves;
  }

  /// What decides how much memory a pass needs, and how much that is: of passes that follow each other it is the same.
  struct Space {
    StepSize size;
    int picked_rows = 0;
    int rank = 0;

    bool operator==(const Space&) const = default;
  };

  gc::Stream stream;
  gc::Stopwatch stopwatch;
  bool is_timed = false;  // the pass under way
  Space space;
  std::size_t space_bytes = 0;  // of it; 0: not known yet
  BatchUpload upload;
  Workspace workspace;
  HostStaging staging{stream};
  gc::GraphCache recordings;  // of passes, by their sizes
  std::uint64_t recorded_at = 0;
  gc::PinnedBytes logits;  // on the host
};

/// The rows of a step whose logits are wanted.
struct PickedRows {
  const std::int32_t* rows;  // [count] of the step's, ascending
  int count;
  std::span<const AdapterRows> adapters;  // among them

  /// Bytes of the workspace that Head::apply() takes.
  static std::size_t workspace(std::size_t count, std::size_t hidden, const StepSize& size) {
    return Workspace::rounded(count * hidden * size.element()) +
           Workspace::rounded(count * hidden / 8 * sizeof(float)) +
           (size.precise ? 2 * Workspace::rounded(count * hidden * sizeof(gc::Bf16)) : 0);
  }
};

/// From the residual stream to logits: the final norm, the head, and what a model does with its outputs.
///
/// Of decoded rows whose last step leaves UnscaledRows the head ends the norm itself; which way rows go depends on the model
/// and its adapters alone, so that within a phase a row's logits do not depend on how many there are.
struct Head {
  DeviceNorm norm;
  DeviceLinear linear;
  float multiplier = 1;
  float cap = 0;  // 0: none

  /// Outputs of a row: the vocabulary, rounded up.
  int outputs() const { return linear.weight.rows; }
  bool can_read_unscaled() const { return norm.suits_decoding() && linear.reads_unscaled(); }
  /// It does, where CudaStep::unscaled is there.
  NormAhead read_unscaled() {
    reads_unscaled_ = true;
    return {.norm = norm.rows(), .factor = 1};
  }

  /// x f32 [padded rows, hidden] -> logits f32 [picked rows, outputs].
  void apply(const CudaStep& step, const float* x, const PickedRows& picked, float* logits) const;

 private:
  bool reads_unscaled_ = false;  // what the last step leaves

  void multiply_unscaled(const CudaStep& step, const PickedRows& picked, float* logits) const;
  template <class Row>
  void multiply_normed(const CudaStep& step, const float* x, const PickedRows& picked, float* logits) const;
  /// Without what adapters change. In both phases: a row's logits do not depend on how many there are.
  void multiply(const CudaStep& step, const gc::Bf16* x, int rows, float* logits) const;
  void multiply(const CudaStep& step, const float* x, int rows, float* logits) const;
};

/// Makes the choices of a decode step on the GPU: plans go there, tokens come back, logits stay.
///
/// Parameters and results lie in pinned memory that the kernel reaches; results() is valid when the stream has been waited
/// for, until the next launch.
class DeviceDraw {
 public:
  /// What the next launch() shall do. Masks of plans are there.
  void prepare(std::span<const std::optional<DrawPlan>> plans, int vocab);
  /// `logits` f32 on the GPU, rows `stride` apart, one for each plan; adjusted in place. Rows without a plan
  /// keep their logits. What it puts into the stream depends on their number alone, and on moves().
  void launch(float* logits, int stride, gc::StreamHandle stream);
  void launch(float* logits, int stride, int vocab, std::span<const std::optional<DrawPlan>> plans,
              gc::StreamHandle stream) {
    prepare(plans, vocab);
    launch(logits, stride, stream);
  }
  /// Of the next launch.
  int rows() const { return rows_; }
  /// Grows when memory that a launch names has been replaced.
  std::uint64_t moves() const { return moves_; }
  /// For each plan; nothing where there was none.
  std::vector<std::optional<DecodePass::Drawn>> results(std::span<const std::optional<DrawPlan>> plans) const;

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

  // Passes on their way to the GPU.
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
  /// the other then, so that a row's bits do not depend on what it meets.
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
