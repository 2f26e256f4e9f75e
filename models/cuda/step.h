#pragma once
// A forward pass on the GPU: the batch, what layers need to compute it, and its activation memory.
//
// Threading: created and used by the thread that runs the model; all work of a step goes to one stream.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "gpu/cuda/attention/kv_selection.h"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"
#include "models/cuda/adapter.h"
#include "models/cuda/weights.h"
#include "models/model.h"
#include "models/parts/rope.h"

namespace reprise::gpu::cuda {
struct RopeRows;
}

namespace reprise::models::cuda {

/// Stack allocator for activations in GPU memory, reserved before a step.
class Workspace {
 public:
  static constexpr std::size_t kAlignment = 256;
  static std::size_t rounded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  /// Grows to at least `bytes`; existing pointers become invalid. Requires: the stream is idle. Throws
  /// std::bad_alloc.
  void reserve(std::size_t bytes) {
    if (bytes <= memory_.size()) return;
    memory_ = gc::DeviceBytes();  // free it before allocating more
    memory_ = gc::DeviceBytes(bytes);
    ++moves_;
  }
  /// Increases when the memory is reallocated.
  std::uint64_t moves() const { return moves_; }

  std::byte* bytes(std::size_t count);
  template <class T>
  T* take(std::size_t count) {
    return reinterpret_cast<T*>(bytes(count * sizeof(T)));
  }

  /// reset(mark()) releases what was allocated since mark(); stream order makes reuse safe.
  std::size_t mark() const { return next_; }
  void reset(std::size_t mark = 0) { next_ = mark; }

 private:
  gc::DeviceBytes memory_;
  std::size_t next_ = 0;
  std::uint64_t moves_ = 0;
};

/// Pinned staging buffers for a part of a step that the host computes: inputs are copied down, results up.
/// One per phase context (models/cuda/model.h).
///
/// Usage: take(), enqueue the copies down, wait(), compute on the host, enqueue the copy up. The next take()
/// may reuse the buffers without waiting, because its copies down and wait() follow the copy up in the
/// stream.
class HostStaging {
 public:
  explicit HostStaging(gc::Stream& stream) : stream_(stream) {}

  /// Separate buffers: one can be in use while the other is copied.
  struct Scratch {
    std::byte* down;
    std::byte* up;
  };
  /// Returns buffers of at least these sizes; they grow on demand. Throws std::bad_alloc.
  Scratch take(std::size_t down_bytes, std::size_t up_bytes);
  /// Blocks until the copies down, and the previous copy up, are done.
  void wait() { stream_.wait(); }

 private:
  gc::Stream& stream_;
  gc::PinnedBytes down_;
  gc::PinnedBytes up_;
};

/// The sizes of a step that determine the sizes of buffers.
struct StepSize {
  int rows = 0;
  int tiles = 0;
  int longest = 0;       // tokens of the longest sequence after the step
  int slices_rows = 0;   // rows of slices; the rest of `rows` pad a prefill
  bool precise = false;  // rows between GEMMs are f32

  bool operator==(const StepSize&) const = default;

  /// Bytes per element of a row between GEMMs.
  std::size_t element() const { return precise ? sizeof(float) : sizeof(gc::Bf16); }
  std::size_t padded() const { return static_cast<std::size_t>(gc::PrefillGemm::padded(rows)); }
};

/// The output type of a GEMM that writes rows of type Row.
template <class Row>
inline constexpr gc::GemmOutput kRowsOf = sizeof(Row) == sizeof(float) ? gc::GemmOutput::kF32
                                                                       : gc::GemmOutput::kBf16;

/// Input of a part, in one of four forms:
/// - x: normalized bf16 rows [padded rows, hidden];
/// - wide: normalized f32 rows, in a precise step;
/// - raw: the residual, for few decoded rows; the part's first GEMM normalizes it;
/// - unscaled: deferred-norm rows that the previous step wrote; the first GEMM finishes the norm.
struct PartInput {
  const gc::Bf16* x = nullptr;  // null: another form
  const float* wide = nullptr;  // null: another form
  gc::NormedRows raw{};         // x null: another form
  gc::DeferredNormRows unscaled{};

  static PartInput of(const gc::Bf16* rows) {
    return {.x = rows, .wide = nullptr, .raw = {}, .unscaled = {}};
  }
  static PartInput of(const float* rows) { return {.x = nullptr, .wide = rows, .raw = {}, .unscaled = {}}; }
  template <class Row>
  const Row* rows() const {
    if constexpr (sizeof(Row) == sizeof(float)) {
      return wide;
    } else {
      return x;
    }
  }
};

/// Destination of a part's output: y f32 [padded rows, hidden], overwritten or added to.
struct PartOutput {
  float* y;
  gc::GemmOutput how;  // kF32 or kAddF32
  /// With kAddF32: the deferred-norm input of the next step, also written; null: none.
  const gc::DeferredNormOutput* next = nullptr;
};

struct CudaStep {
  Phase phase;
  gc::Batch batch;
  gc::PrefillGemm& gemm;
  Workspace& workspace;
  gc::StreamHandle stream;
  StepSize size;
  std::span<const RopeTable> ropes{};       // one per RoPE configuration of the model
  std::span<const AdapterRows> adapters{};  // rows with an adapter
  float* inner = nullptr;                   // [rows, largest rank], if there are adapters
  gc::Bf16* ordered = nullptr;              // [padded rows, max permuted columns], if inputs are permuted
  gc::TwoTerms terms{};                     // [padded rows, max columns] each, in a precise step
  float* first_values = nullptr;   // [padded rows, handed_on()]: output of the first layer for later ones
  float* late = nullptr;           // [padded rows, hidden]: sum of the late parts of a layer
  HostStaging* staging = nullptr;  // for parts computed on the host
  const gc::QueryRing* rings = nullptr;  // [slices], if prompts will be compacted
  gc::DeferredNormRows unscaled{};       // [padded rows, hidden], if steps defer norms; x null: they do not
  gc::SlotExports exports{};             // written by parts whose exports_states() is true

  /// Computes y [padded rows, outputs] from x [padded rows, inputs] with the GEMMs of the phase, including
  /// bias and adapters. Rows of f32 are multiplied as sums of two bf16 terms; their output is f32.
  void multiply(const gc::Bf16* x, const DeviceLinear& linear, void* y, gc::GemmOutput output) const;
  void multiply(const float* x, const DeviceLinear& linear, void* y, gc::GemmOutput output) const;
  /// As above, for a part's input. A raw input requires takes_raw(linear).
  void multiply(const PartInput& x, const DeviceLinear& linear, void* y, gc::GemmOutput output) const;
  void multiply(const gc::Bf16* x, const DeviceLinear& linear, const PartOutput& to) const;
  void multiply(const float* x, const DeviceLinear& linear, const PartOutput& to) const;
  /// Returns x with its columns in the linear's order: x itself or a permuted copy.
  const gc::Bf16* in_order(const gc::Bf16* x, const DeviceLinear& linear) const;
  /// Returns whether the linear's GEMM can normalize the residual itself in this step.
  bool takes_raw(const DeviceLinear& linear) const;
  /// Returns whether the GEMM and the gate after it are fused in this step.
  bool gates(const DeviceLinear& linear, int outputs) const;
  /// Returns whether they are fused in decode without adapters.
  static bool can_gate(const DeviceLinear& linear, int outputs);
  /// Adds the adapters' changes to y; multiply() calls it.
  template <class Row>
  void add_changes(const Row* x, const DeviceLinear& linear, void* y, gc::GemmOutput output) const;

 private:
  /// As multiply(), without bias and adapters.
  void multiply_plain(const gc::Bf16* x, const DeviceLinear& linear, void* y, gc::GemmOutput output) const;
  void add_bias(const DeviceLinear& linear, void* y, gc::GemmOutput output) const;
};

/// Cosine and sine tables of a step, one per RopeConfig. Parts add theirs while a model is loaded.
class RopeTables {
 public:
  /// Returns the index of the table in CudaStep::ropes.
  std::size_t add(const std::shared_ptr<const RopeConfig>& rope, WeightStore& weights);

  /// Returns the bytes that take() takes.
  std::size_t workspace(int rows) const;
  /// Allocates the tables of a step, uninitialized.
  std::vector<RopeTable> take(Workspace& workspace, int rows) const;
  /// Computes the tables from index `first` on.
  void make(const gc::Batch& batch, std::span<const RopeTable> tables, std::size_t first,
            gc::StreamHandle stream) const;
  /// Returns the arguments with which a kernel computes table `index`; empty if there is no such table.
  gc::RopeRows rows_of(const gc::Batch& batch, std::span<const RopeTable> tables, std::size_t index) const;

 private:
  struct Rope {
    std::shared_ptr<const RopeConfig> config;
    const float* inv_freq;  // [pairs], on the GPU
    std::size_t pairs() const { return config->inv_freq.size(); }
  };
  std::vector<Rope> ropes_;
};

}  // namespace reprise::models::cuda
