#pragma once
// A loaded model: weights, layers, and the forward pass over a batch of slices.
//
// forward() computes the tokens of each slice from the state of its sequence, updates that state, and gives
// logits where they are asked for. Exactness: the logits after a token, and the state, depend on the tokens
// before and on the compute options alone, bit for bit: not on slicing, batch mates, threads, or on whether
// the state was restored from a snapshot.
//
// Threading: one thread at a time; inside, kernels run on the team of threads that was given.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "gpu/state_store.h"
#include "gpu/threads.h"
#include "models/checkpoint.h"
#include "models/layers.h"
#include "models/linear.h"
#include "models/state_layout.h"
#include "models/step.h"
#include "models/token_id.h"

namespace reprise::models {

struct Slice {
  enum class Logits : std::uint8_t { kNone, kLast, kAll };

  gpu::Sequence* sequence;          // each sequence once in a batch; room for the tokens was reserved
  std::span<const TokenId> tokens;  // at least one, each within the vocabulary
  Logits logits = Logits::kLast;
};

class Model {
 public:
  /// `threads` must outlive the model. Throws LoadError.
  static std::unique_ptr<Model> load(const std::filesystem::path& path, const ComputeOptions& options,
                                     gpu::Threads& threads);

  const ModelConfig& config() const { return checkpoint_.config(); }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  const StateLayout& state() const { return state_; }
  const ComputeOptions& options() const { return options_; }

  /// Rows of logits [vocab] for the slices that ask, in their order; valid until the next call.
  std::span<const float> forward(std::span<const Slice> slices);

  /// For the builders of architectures (models/architectures.h).
  Model(Checkpoint checkpoint, const ComputeOptions& options, gpu::Threads& threads);
  void add_layer(Layer layer) { layers_.push_back(std::move(layer)); }
  StateLayout& declare_state() { return state_; }

 private:
  void place_slices(Step& step, std::span<const Slice> slices) const;
  void make_rope(Step& step, std::span<const Slice> slices);
  std::span<const float> make_logits(Step& step, std::span<const Slice> slices, const float* x);

  const Checkpoint checkpoint_;
  const ComputeOptions options_;
  gpu::Threads& threads_;
  const gpu::Kernels& kernels_;
  StateLayout state_;
  Linear embedding_;
  std::vector<Layer> layers_;
  RmsNorm final_norm_;
  Linear head_;
  Scratch scratch_;
  std::vector<float> logits_;
};

}  // namespace reprise::models
