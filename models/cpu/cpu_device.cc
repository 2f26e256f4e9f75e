// The CPU as a device, and the test device cpu-grid: a CPU under a GPU's rules (grid, other bits in decode).

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "base/machine.h"
#include "gpu/state/block_memory.h"
#include "models/device.h"
#include "models/memory_plan.h"

namespace reprise::models {
namespace {

/// Half of the available memory, at least 256 MiB. The OS counts mapped weights as available; `in_place` is
/// their size in bytes.
std::uint64_t half_of_free_memory(std::uint64_t in_place) {
  constexpr std::uint64_t kMin = 256ULL << 20;
  const std::uint64_t available = available_memory();
  return std::max(kMin, (available - std::min(available, in_place)) / 2);
}

class CpuDevice : public Device {
 public:
  explicit CpuDevice(unsigned threads) : threads_(threads) {}

  std::string name() const override { return "cpu"; }
  std::unique_ptr<Model> load(const std::filesystem::path& path, const ComputeOptions& options,
                              const LoadProgress& progress) override {
    gpu::Threads packers(threads_.count());  // separate: a model's step may be using threads_
    std::unique_ptr<Model> model = load_on_cpu(path, options, threads_, &packers, progress);
    in_place_.fetch_add(plan_memory(model->files(), options).in_place, std::memory_order_relaxed);
    return model;
  }
  bool loads_aside() const override { return true; }
  gpu::BlockMemory& memory() override { return gpu::host_memory(); }

  /// Returns `wanted` or, if 0, half of the memory that was available at the first such call.
  std::uint64_t state_bytes(std::uint64_t wanted) override {
    if (wanted != 0) return wanted;
    if (half_of_free_ == 0) half_of_free_ = half_of_free_memory(in_place_.load(std::memory_order_relaxed));
    return half_of_free_;
  }
  std::uint32_t prefill_rows() const override { return kPrefillRows; }

 private:
  static constexpr std::uint32_t kPrefillRows = 256;  // measured: more is slower

  gpu::Threads threads_;
  std::uint64_t half_of_free_ = 0;  // 0: not determined yet
  /// Bytes of mapped files that loaded models compute with. relaxed: a statistic; the caller has already
  /// synchronized with the loads that it must include.
  std::atomic<std::uint64_t> in_place_{0};
};

/// Prefills and decodes with two models of different arithmetic, under a GPU's rules.
class GridModel : public Model {
 public:
  static constexpr std::uint32_t kGrid = 64;

  GridModel(ModelFiles files, std::unique_ptr<Model> prefill, std::unique_ptr<Model> decode)
      : Model(std::move(files), prefill->options()),
        prefill_(std::move(prefill)),
        decode_(std::move(decode)) {
    state_ = prefill_->state();
  }

  std::span<const float> forward(std::span<const Slice> slices, Phase phase) override {
    if (phase == Phase::kDecode) return decode_->forward(slices);
    for (const Slice& slice : slices) {
      REPRISE_CHECK(slice.sequence->stored() % kGrid == 0,
                    "a prefill slice does not start at a multiple of kGrid");
    }
    for (const Slice& slice : slices) compute_exports(slice);
    if (std::none_of(slices.begin(), slices.end(), [](const Slice& one) { return !one.exports.empty(); })) {
      return prefill_->forward(slices);
    }
    std::vector<Slice> rest(slices.begin(), slices.end());
    for (Slice& slice : rest) {
      if (!slice.exports.empty()) slice.tokens = slice.tokens.subspan(slice.exports.back().after);
      slice.exports = {};
    }
    return prefill_->forward(rest);
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
            .exports_slots = true,
            .computes_aside = true};
  }
  std::string arithmetic() const override {
    return "prefill by " + prefill_->arithmetic() + "; decode by " + decode_->arithmetic();
  }

 private:
  /// Computes the slice up to its last export, in parts that end at the exports.
  void compute_exports(const Slice& slice) {
    std::uint32_t at = 0;
    for (const SlotExport& one : slice.exports) {
      REPRISE_CHECK(one.after % kGrid == 0 && one.after > at && one.after < slice.tokens.size(),
                    "a checkpoint position is outside its slice or off the grid");
      Slice part = slice;
      part.tokens = slice.tokens.subspan(at, one.after - at);
      part.logits = Slice::Logits::kNone;
      part.hidden = slice.adds_hidden ? slice.hidden : nullptr;
      part.exports = {};
      static_cast<void>(prefill_->forward({&part, 1}));
      std::memcpy(one.slot, slice.sequence->slot_data(), state_.sizes().slot_bytes);
      at = one.after;
    }
  }

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
    return std::make_unique<GridModel>(ModelFiles::open(path), cpu_->load(path, options, progress),
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

std::unique_ptr<Device> open_cpu(const DeviceOptions& options) {
  return std::make_unique<CpuDevice>(options.threads);
}

std::unique_ptr<Device> open_cpu_grid(const DeviceOptions& options) {
  return std::make_unique<GridDevice>(open_cpu(options));
}

}  // namespace reprise::models
