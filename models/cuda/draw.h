#pragma once
// Makes the choices of a decode step on the GPU: plans go there, tokens come back, logits stay.
//
// Threading: one thread. Parameters and results lie in pinned memory that the kernel reaches; results() is
// valid when the stream has been waited for, until the next launch.

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
  /// `logits` f32 on the GPU, rows `stride` apart, one for each plan; adjusted in place. Rows without a plan
  /// keep their logits. Masks of plans are there.
  void launch(float* logits, int stride, int vocab, std::span<const std::optional<DrawPlan>> plans,
              gc::StreamHandle stream);
  /// For each plan; nothing where there was none.
  std::vector<std::optional<DecodePass::Drawn>> results(std::span<const std::optional<DrawPlan>> plans) const;

 private:
  gc::PinnedBytes params_;
  gc::PinnedBytes adjustments_;
  gc::PinnedBytes masks_;
  gc::PinnedBytes out_;
  gc::DeviceBytes workspace_;
};

}  // namespace reprise::models::cuda
