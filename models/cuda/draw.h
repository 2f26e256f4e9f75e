#pragma once
// Makes the choices of a decode step on the GPU: plans go there, tokens come back, logits stay.
//
// Threading: one thread. Parameters and results lie in pinned memory that the kernel reaches; results() is
// valid when the stream has been waited for, until the next launch.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpu/cuda/device_memory.h"
#include "gpu/cuda/stream.h"
#include "models/model.h"

namespace reprise::models::cuda {

namespace gc = gpu::cuda;

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

}  // namespace reprise::models::cuda
