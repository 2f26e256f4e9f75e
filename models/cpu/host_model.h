#pragma once
// A model instance on the CPU. Decode uses the kernels of prefill, so a row's bits do not depend on the
// phase.
//
// Threading: used by one thread at a time; its kernels run on the given thread pool.

#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/cpu/host_adapter.h"
#include "models/cpu/linear.h"
#include "models/cpu/part.h"
#include "models/model.h"

namespace reprise::models::cpu {

class HostModel : public Model {
 public:
  /// Packs the weights on `packers` now and runs later steps on `threads`; both may be the same pool, and
  /// `threads` must outlive the model. Throws LoadError.
  HostModel(ModelFiles files, const ComputeOptions& options, gpu::Threads& threads, gpu::Threads& packers,
            const LoadProgress& progress = {});
  HostModel(ModelFiles files, const ComputeOptions& options, gpu::Threads& threads)
      : HostModel(std::move(files), options, threads, threads) {}

  std::span<const float> forward(std::span<const Slice> slices, Phase phase) override;
  void add_adapter(AdapterKey key, const Adapter& adapter) override;
  void remove_adapter(AdapterKey key) override { adapters_.erase(key); }
  void compact(const Compaction& compaction) override;
  std::string why_not_compacted() const override { return models::why_not_compacted(config().layers); }
  ModelRules rules() const override { return {.gives_hidden = true, .exports_slots = exports_slots_}; }
  std::string arithmetic() const override { return "cpu, " + gpu::name_of(kernels_); }

 private:
  void add_slices(Step& step, std::span<const Slice> slices) const;
  void make_ropes(Step& step, std::span<const Slice> slices) const;
  void give_hidden(Step& step, std::span<const Slice> slices, const float* x);
  std::span<const float> make_logits(Step& step, std::span<const Slice> slices, const float* x);

  gpu::Threads& threads_;
  const gpu::Kernels& kernels_;
  Linear embedding_;
  std::optional<Norm> embedding_norm_;
  RopeTables ropes_;
  std::vector<Layer> layers_;
  Norm final_norm_;
  Linear head_;
  std::set<std::string> adaptable_;  // names of matrices that adapters can change
  bool exports_slots_ = false;       // all layers support Slice::exports
  std::unordered_map<AdapterKey, HostAdapter> adapters_;
  Scratch scratch_;
  std::vector<float> logits_;
};

}  // namespace reprise::models::cpu
