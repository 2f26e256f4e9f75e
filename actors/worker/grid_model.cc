#include "actors/worker/grid_model.h"

#include "base/check.h"
#include "models/device.h"

namespace reprise::actors {
namespace {

using models::Model;
using models::Phase;
using models::Slice;

class GridModel : public Model {
 public:
  static constexpr std::uint32_t kGrid = 64;

  GridModel(models::Checkpoint checkpoint, std::unique_ptr<Model> prefill, std::unique_ptr<Model> decode)
      : Model(std::move(checkpoint), prefill->options()),
        prefill_(std::move(prefill)),
        decode_(std::move(decode)) {
    state_ = prefill_->state();
  }

  std::span<const float> forward(std::span<const Slice> slices, Phase phase) override {
    if (phase == Phase::kDecode) return decode_->forward(slices);
    for (const Slice& slice : slices) {
      REPRISE_CHECK(slice.sequence->stored() % kGrid == 0, "a prefill slice begins off the grid");
    }
    return prefill_->forward(slices);
  }
  std::uint32_t grid() const override { return kGrid; }
  bool decode_is_prefill() const override { return false; }

 private:
  const std::unique_ptr<Model> prefill_;
  const std::unique_ptr<Model> decode_;
};

}  // namespace

std::unique_ptr<Model> load_grid_model(const std::string& path, const models::ComputeOptions& options,
                                       models::Device& cpu) {
  models::ComputeOptions other = options;
  other.compute = options.compute == gpu::Compute::kF32 ? gpu::Compute::kAuto : gpu::Compute::kF32;
  return std::make_unique<GridModel>(models::Checkpoint::open(path), cpu.load(path, options),
                                     cpu.load(path, other));
}

}  // namespace reprise::actors
