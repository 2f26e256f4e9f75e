#include "base/check.h"
#include "models/cpu/cpu_device.h"

namespace reprise::models {
namespace {

class GridModel : public Model {
 public:
  static constexpr std::uint32_t kGrid = 64;

  GridModel(Checkpoint checkpoint, std::unique_ptr<Model> prefill, std::unique_ptr<Model> decode)
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
  void add_adapter(AdapterKey key, const Adapter& adapter) override {
    prefill_->add_adapter(key, adapter);
    decode_->add_adapter(key, adapter);
  }
  void remove_adapter(AdapterKey key) override {
    prefill_->remove_adapter(key);
    decode_->remove_adapter(key);
  }
  void compact(const Compaction& compaction) override { prefill_->compact(compaction); }
  std::string why_not_compacted() const override { return prefill_->why_not_compacted(); }
  ModelRules rules() const override {
    return {.grid = kGrid,
            .phases_mix = false,
            .decode_is_canonical = false,
            .replays_decoding = false,
            .gives_hidden = true,
            .computes_aside = true};
  }
  std::string arithmetic() const override {
    return "prefill by " + prefill_->arithmetic() + "; decode by " + decode_->arithmetic();
  }

 private:
  const std::unique_ptr<Model> prefill_;
  const std::unique_ptr<Model> decode_;
};

class GridDevice : public Device {
 public:
  explicit GridDevice(std::unique_ptr<Device> cpu) : cpu_(std::move(cpu)) {}

  std::string name() const override { return "cpu-grid"; }
  std::unique_ptr<Model> load(const std::filesystem::path& path, const ComputeOptions& options,
                              const LoadProgress& progress) override {
    ComputeOptions other = options;
    other.compute = options.compute == gpu::Compute::kF32 ? gpu::Compute::kAuto : gpu::Compute::kF32;
    return std::make_unique<GridModel>(Checkpoint::open(path), cpu_->load(path, options, progress),
                                       cpu_->load(path, other, {}));
  }
  bool loads_aside() const override { return cpu_->loads_aside(); }
  gpu::BlockMemory& memory() override { return cpu_->memory(); }
  std::uint64_t state_bytes(std::uint64_t wanted) override { return cpu_->state_bytes(wanted); }
  std::uint32_t prefill_rows() const override { return cpu_->prefill_rows(); }

 private:
  const std::unique_ptr<Device> cpu_;
};

}  // namespace

std::unique_ptr<Device> open_cpu_grid(const DeviceOptions& options) {
  return std::make_unique<GridDevice>(open_cpu(options));
}

}  // namespace reprise::models
