#pragma once
// A loaded model on any device: weights, state layout, and the forward pass over a batch of slices.
//
// forward() computes the tokens of each slice from the state of its sequence, updates that state, and returns
// the logits asked for. Exactness: within a phase, the logits after a token and the state depend, bit for
// bit, only on the tokens before and on the compute options: not on slicing, batch mates, threads, or whether
// the state was restored from a snapshot. ModelRules has further guarantees.
//
// Threading: one thread at a time.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/token.h"
#include "gpu/state/state_store.h"
#include "gpu/threads.h"
#include "models/adapters/adapter.h"
#include "models/compaction.h"
#include "models/compute_options.h"
#include "models/model_files.h"
#include "models/parts/part.h"
#include "models/sampling/sampler.h"
#include "models/slot_export.h"

namespace reprise::models {

/// Identifies an adapter added to a model; chosen by the model's owner. 0: no adapter.
using AdapterKey = std::uint64_t;

/// A token sampled by the device.
struct DrawnToken {
  TokenId token = 0;
  std::optional<SampleError> error{};  // set if no token could be sampled
  bool finite = true;                  // no logit was NaN or +infinity
};

struct Slice {
  enum class Logits : std::uint8_t { kNone, kLast, kAll };

  gpu::Sequence* sequence;  // each sequence at most once in a batch; capacity for the tokens is reserved
  std::span<const TokenId> tokens;  // at least one, each within the vocabulary; exactly one when decoding
  Logits logits = Logits::kLast;
  AdapterKey adapter = 0;  // 0, or a key that was added; constant for a sequence

  /// f32 [hidden], or null. Receives the hidden state of the last token after the final norm; with
  /// adds_hidden, the hidden states of all tokens are added to it in order. Requires:
  /// ModelRules::gives_hidden.
  float* hidden = nullptr;
  bool adds_hidden = false;

  /// Prefill of a prompt that will be compacted: records what compaction needs of the slice's tokens. Null:
  /// none.
  PromptTail* tail = nullptr;

  /// Prefill only, ascending. Requires: ModelRules::exports_slots.
  std::span<const SlotExport> exports{};

  /// Prefill only, for a model that draws(), with the logits of the last token: how to sample the next token.
  /// The result goes to `drawn`, and the slice gets no row of logits. Null: it gets one.
  const SamplePlan* plan = nullptr;
  std::optional<DrawnToken>* drawn = nullptr;
};

enum class Phase : std::uint8_t { kPrefill, kDecode };

/// One token for each of several sequences. Where a plan is given, the device may sample the next token
/// itself and return no logits. A plan whose mask is not ready at sampling time is ignored.
struct DecodePass {
  using Drawn = DrawnToken;

  std::vector<Slice> slices{};
  std::vector<std::optional<SamplePlan>> plans{};  // [slices]

  std::vector<std::optional<Drawn>> drawn{};  // [slices]; output
  std::span<const float> logits{};  // output: rows of the slices not sampled on the device, in order
};

/// Properties of a model on its device, other than speed. The fields are independent of each other.
struct ModelRules {
  // tokens; prefill slices begin and canonical snapshots are taken at multiples of it
  std::uint32_t grid = 1;
  bool phases_mix = true;  // prefill slices and decoded tokens may share a pass without changing bits
  // a decoded state is bitwise identical to a prefilled one and may be shared
  bool decode_is_canonical = true;
  bool replays_decoding = true;  // re-prefilling decoded tokens restores their state bit for bit
  bool gives_hidden = false;     // Slice::hidden is supported
  bool exports_slots = false;    // Slice::exports are supported: a slice need not end where a state is wanted
  bool computes_aside = false;   // another thread may wait for a pass while the model's owner continues
};

class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelConfig& config() const { return files_.config(); }
  const ModelFiles& files() const { return files_; }
  const StateLayout& state() const { return state_; }
  const ComputeOptions& options() const { return options_; }

  /// Returns rows of logits [vocab], in order, for the slices that ask for them and were not sampled; valid
  /// until the next call for the phase.
  virtual std::span<const float> forward(std::span<const Slice> slices, Phase phase = Phase::kPrefill) = 0;

  /// Decodes one token per slice; every slice asks for the last token's logits. Results are valid until the
  /// next call.
  virtual void decode(DecodePass& pass) {
    pass.logits = forward(pass.slices, Phase::kDecode);
    pass.drawn.assign(pass.slices.size(), std::nullopt);
  }

  /// Runs forward() for `prefills` and decode() for other sequences, concurrently if the device can. For
  /// models whose phases do not mix.
  virtual std::span<const float> prefill_and_decode(std::span<const Slice> prefills, DecodePass& decodes) {
    const std::span<const float> logits = forward(prefills);
    decode(decodes);
    return logits;
  }

  // -- compaction: between passes, on the thread that owns the device

  /// Writes the kept keys and values of a sequence to the given pages; the sequence does not change.
  /// Requires: why_not_compacted() is empty. Throws std::bad_alloc.
  virtual void compact(const Compaction& compaction);
  /// Returns why prompts cannot be compacted; empty if they can.
  virtual std::string why_not_compacted() const;

  /// True if decode() honors DecodePass::plans and prefill honors Slice::plan.
  virtual bool draws() const { return false; }

  /// A thread calls this before it computes.
  virtual void bind_thread() {}

  // -- adapters, called between passes on the thread that owns the device. Slices may choose different
  // adapters; a row depends on its own adapter only, and without one it is bitwise identical to a model that
  // has no adapters.

  /// Requires: `key` > 0 and not in use. Throws LoadError, naming the matrix, for an adapter this model does
  /// not support; std::bad_alloc.
  virtual void add_adapter(AdapterKey key, const Adapter& adapter);
  /// Requires: no slice uses the adapter any more.
  virtual void remove_adapter(AdapterKey) {}
  /// Bytes of device memory the adapter takes.
  virtual std::uint64_t adapter_bytes(const Adapter& adapter) const { return adapter.bytes(); }

  virtual ModelRules rules() const = 0;

  /// Names everything that decides the bits of the results except weights, options and the build: the kernels
  /// and the hardware they depend on. Constant after loading.
  virtual std::string arithmetic() const = 0;

 protected:
  Model(ModelFiles files, const ComputeOptions& options) : files_(std::move(files)), options_(options) {}

  const ModelFiles files_;
  const ComputeOptions options_;
  StateLayout state_;
};

/// Loads a model on the CPU. `threads` must outlive it. `packers` pack the weights while the caller's
/// `threads` are busy; null: `threads` do. Throws LoadError.
std::unique_ptr<Model> load_on_cpu(const std::filesystem::path& path, const ComputeOptions& options,
                                   gpu::Threads& threads, gpu::Threads* packers = nullptr,
                                   const LoadProgress& progress = {});

}  // namespace reprise::models
