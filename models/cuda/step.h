#pragma once
// One forward pass on the GPU: the batch, what all layers need to compute it, and the memory in between.
//
// Threading: made and used by the thread that runs the model; everything is put into one stream.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/gemm.h"
#include "gpu/cuda/kv_selection.h"
#include "gpu/cuda/stream.h"
#include "models/cuda/adapter.h"
#include "models/cuda/weights.h"
#include "models/model.h"
#include "models/parts/rope.h"

namespace reprise::gpu::cuda {
struct RopeRows;
}

namespace reprise::models::cuda {

/// Activations. Room for a step is made before it begins; then it is handed out from the front.
class Workspace {
 public:
  static constexpr std::size_t kAlignment = 256;
  static std::size_t rounded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  /// The stream must be idle. Throws std::bad_alloc.
  void reserve(std::size_t bytes) {
    if (bytes <= memory_.size()) return;
    memory_ = gc::DeviceBytes();  // before more is taken
    memory_ = gc::DeviceBytes(bytes);
    ++moves_;
  }
  /// Grows when the memory has been replaced.
  std::uint64_t moves() const { return moves_; }

  std::byte* bytes(std::size_t count);
  template <class T>
  T* take(std::size_t count) {
    return reinterpret_cast<T*>(bytes(count * sizeof(T)));
  }

  /// What was handed out since the mark may be handed out again: the stream keeps the order.
  std::size_t mark() const { return next_; }
  void reset(std::size_t mark = 0) { next_ = mark; }

 private:
  gc::DeviceBytes memory_;
  std::size_t next_ = 0;
  std::uint64_t moves_ = 0;
};

/// Memory between the GPU and the host for a part of a step that the host computes: rows come down, results go up. Pinned, so
/// that the GPU's transfers need no copy between. There is one for each lane (models/cuda/model.h).
///
/// The step waits in the middle: take() room, put the copies down into the stream, wait(), compute, put the copy up into the
/// stream. What was taken is free again at the next take(), which waits for nothing: by the time of the next wait() the
/// stream has done the copy up.
class HostStaging {
 public:
  explicit HostStaging(gc::Stream& stream) : stream_(stream) {}

  /// What comes down, and what goes up: each keeps its place while the other is in use.
  struct Room {
    std::byte* down;
    std::byte* up;
  };
  /// Grows as steps do, up to what the largest needs. Throws std::bad_alloc.
  Room take(std::size_t down_bytes, std::size_t up_bytes);
  /// Until the copies down are there, and the last one up is done.
  void wait() { stream_.wait(); }

 private:
  gc::Stream& stream_;
  gc::PinnedBytes down_;
  gc::PinnedBytes up_;
};

/// How large a step is: what the sizes of buffers depend on.
struct StepSize {
  int rows = 0;
  int tiles = 0;
  int longest = 0;       // tokens of a sequence after the step
  int slices_rows = 0;   // the first of `rows`: those of slices; the others only fill up a prefill
  bool precise = false;  // rows between products are f32

  bool operator==(const StepSize&) const = default;

  /// Bytes of an element of a row.
  std::size_t element() const { return precise ? sizeof(float) : sizeof(gc::Bf16); }
  std::size_t padded() const { return static_cast<std::size_t>(gc::PrefillGemm::padded(rows)); }
};

/// What a product makes that writes rows for the kernels between products.
template <class Row>
inline constexpr gc::GemmOutput kRowsOf = sizeof(Row) == sizeof(float) ? gc::GemmOutput::kF32
                                                                       : gc::GemmOutput::kBf16;

/// What a part reads: rows [padded rows, hidden], of f32 in a precise step; or, of few decoded rows, the stream itself, whose
/// norm the part's first product takes on its way; or what the step before has left of it, whose norm that product ends.
struct PartInput {
  const gc::Bf16* x = nullptr;  // null: one of the others
  const float* wide = nullptr;  // of a precise step: this one
  gc::NormedRows raw{};         // without these: `unscaled` it is
  gc::UnscaledRows unscaled{};

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

/// Where what a part makes of its rows goes: y f32 [padded rows, hidden], replaced or added to.
struct PartOutput {
  float* y;
  gc::GemmOutput how;  // kF32 or kAddF32
  const gc::NextRows* next =
      nullptr;  // with kAddF32: what the last product leaves for the next step; null: nothing
};

struct CudaStep {
  Phase phase;
  gc::Batch batch;
  gc::PrefillGemm& gemm;
  Workspace& workspace;
  gc::StreamHandle stream;
  StepSize size;
  std::span<const RopeTable> ropes{};       // one for each rope of the model
  std::span<const AdapterRows> adapters{};  // rows that chose one
  float* inner = nullptr;                   // [rows, the largest rank], where there are adapters
  gc::Bf16* ordered = nullptr;           // [padded rows, most columns], where inputs are to be put in order
  gc::TwoTerms terms{};                  // [padded rows, most columns] each, of a precise step
  float* first_values = nullptr;         // [padded rows, handed_on()]: what the first layer hands on
  float* late = nullptr;                 // [padded rows, hidden]: what late parts of a layer make
  HostStaging* staging = nullptr;        // for parts that the host computes
  const gc::QueryRing* rings = nullptr;  // [slices], where prompts will be compacted
  gc::UnscaledRows unscaled{};  // [padded rows, hidden], for steps that leave rows; none: they do not
  gc::SlotExports exports{};    // written by parts that can (Part::exports_states)

  /// x [padded rows, inputs] -> y [padded rows, outputs], by the form of the phase. Rows of f32 are multiplied as sums of two
  /// bf16, and make f32.
  void multiply(const gc::Bf16* x, const DeviceLinear& linear, void* y, gc::GemmOutput output) const;
  void multiply(const float* x, const DeviceLinear& linear, void* y, gc::GemmOutput output) const;
  /// The same of a part's input. Only a linear that takes_raw() is given one that is to be normed.
  void multiply(const PartInput& x, const DeviceLinear& linear, void* y, gc::GemmOutput output) const;
  /// A part's last product.
  void multiply(const gc::Bf16* x, const DeviceLinear& linear, const PartOutput& to) const;
  void multiply(const float* x, const DeviceLinear& linear, const PartOutput& to) const;
  /// x, or its columns in the linear's order.
  const gc::Bf16* in_order(const gc::Bf16* x, const DeviceLinear& linear) const;
  /// Whether rows can be given to a product as they are in the stream.
  bool takes_raw(const DeviceLinear& linear) const;
  /// Whether a product and the gate behind it are one here.
  bool gates(const DeviceLinear& linear, int outputs) const;
  /// Whether they are in decoding where no adapter changes rows in between.
  static bool can_gate(const DeviceLinear& linear, int outputs);
  /// What adapters change in such a product; multiply() does it.
  template <class Row>
  void add_changes(const Row* x, const DeviceLinear& linear, void* y, gc::GemmOutput output) const;

 private:
  /// Without bias and changes.
  void multiply_plain(const gc::Bf16* x, const DeviceLinear& linear, void* y, gc::GemmOutput output) const;
  void add_bias(const DeviceLinear& linear, void* y, gc::GemmOutput output) const;
};

/// Cosines and sines of a step, one table for each rope that the layers of a model have: those that share a RopeConfig share
/// its table. Filled while a model is loaded.
class RopeTables {
 public:
  /// Index of its table in CudaStep::ropes.
  std::size_t add(const std::shared_ptr<const RopeConfig>& rope, WeightStore& weights);

  /// Bytes that take() needs.
  std::size_t workspace(int rows) const;
  /// Room for the tables of a step, which make() fills.
  std::vector<RopeTable> take(Workspace& workspace, int rows) const;
  /// Those from `first` on.
  void make(const gc::Batch& batch, std::span<const RopeTable> tables, std::size_t first,
            gc::StreamHandle stream) const;
  /// What another kernel makes the table `index` from; nothing where there is no such rope.
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
