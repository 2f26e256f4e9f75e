#pragma once
// A loaded model, wherever it is computed: weights, how its layers lay out their state, and the forward pass
// over a batch of slices.
//
// forward() computes the tokens of each slice from the state of its sequence, updates that state, and gives
// logits where they are asked for. Exactness: within a phase the logits after a token, and the state, depend
// on the tokens before and on the compute options alone, bit for bit: not on slicing, batch mates, threads,
// or on whether the state was restored from a snapshot. What else holds, its rules say (ModelRules).
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
#include "gpu/state_store.h"
#include "gpu/threads.h"
#include "models/adapters/adapter.h"
#include "models/checkpoint.h"
#include "models/compaction.h"
#include "models/compute_options.h"
#include "models/parts/part.h"
#include "models/sampling/sampler.h"
#include "models/slot_export.h"

namespace reprise::models {

/// An adapter that a model has taken in, by the number that its owner gave it; 0: none, the model as it is.
using AdapterKey = std::uint64_t;

/// What a device has chosen.
struct DrawnToken {
  TokenId token = 0;
  std::optional<SampleError> error{};  // there was none to choose
  bool finite = true;                  // the logits, as far as NaN and +infinity go
};

struct Slice {
  enum class Logits : std::uint8_t { kNone, kLast, kAll };

  gpu::Sequence* sequence;          // each sequence once in a batch; room for the tokens was reserved
  std::span<const TokenId> tokens;  // at least one, each within the vocabulary; one alone in decoding
  Logits logits = Logits::kLast;
  AdapterKey adapter = 0;  // one that was added; the same for all slices of a sequence

  /// [hidden], where it is not null and the rules say so: gets the last token's hidden state behind the final norm, or
  /// has those of all tokens added, one after the other.
  float* hidden = nullptr;
  bool adds_hidden = false;

  /// Of a prompt that will be compacted, in prefill: remembers what that needs of the slice's tokens. Null: nothing.
  PromptTail* tail = nullptr;

  /// Ascending, in prefill, where the rules say so.
  std::span<const SlotExport> exports{};

  /// In prefill, with the logits of its last token, of a model that draws(): how the next token is chosen. The choice goes
  /// to `drawn`, and the slice has no row of logits. Null: it has one.
  const DrawPlan* plan = nullptr;
  std::optional<DrawnToken>* drawn = nullptr;
};

enum class Phase : std::uint8_t { kPrefill, kDecode };

/// One token for each of several sequences. Where a plan says how, the device may choose the next token
/// itself and give no logits. A plan whose mask is not there when the device would choose is not kept to.
struct DecodePass {
  using Drawn = DrawnToken;

  std::vector<Slice> slices{};
  std::vector<std::optional<DrawPlan>> plans{};  // [slices]

  std::vector<std::optional<Drawn>> drawn{};  // [slices]; filled in
  std::span<const float> logits{};            // rows of those that were not drawn, in order; filled in
};

/// What holds of a model on its device, apart from its speed. Each field answers one question, and none follows from
/// another.
struct ModelRules {
  std::uint32_t grid = 1;           // tokens: where prefill slices may begin, and canonical snapshots stand
  bool phases_mix = true;           // prefill slices and decoded tokens may share a pass: the same bits
  bool decode_is_canonical = true;  // a decoded state has the bits of a prefilled one, and may be shared
  bool replays_decoding = true;  // what was decoded can be prefilled again in the same bits; else it is saved
  bool gives_hidden = false;     // Slice::hidden is filled in
  bool exports_slots = false;    // Slice::exports are written: a slice need not end where a state is wanted
  bool computes_aside = false;   // a pass is waited for on another thread, while the model's owner goes on
};

class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelConfig& config() const { return checkpoint_.config(); }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  const StateLayout& state() const { return state_; }
  const ComputeOptions& options() const { return options_; }

  /// Rows of logits [vocab] for the slices that ask and were not drawn from, in their order; valid until the next call of the phase.
  virtual std::span<const float> forward(std::span<const Slice> slices, Phase phase = Phase::kPrefill) = 0;

  /// The decode phase; the slices want the logits of their one token. Valid until the next call.
  virtual void decode(DecodePass& pass) {
    pass.logits = forward(pass.slices, Phase::kDecode);
    pass.drawn.assign(pass.slices.size(), std::nullopt);
  }

  /// forward() of prefills and decode() of other sequences, of a model whose phases do not mix: at the same time where
  /// the device can.
  virtual std::span<const float> prefill_beside(std::span<const Slice> prefills, DecodePass& decodes) {
    const std::span<const float> logits = forward(prefills);
    decode(decodes);
    return logits;
  }

  // -- compaction: between passes, on the thread that owns the device

  /// Writes what is kept of the sequence's keys and values to the pages that are given; the sequence itself stays as it is.
  /// Where why_not_compacted() says nothing against it. Throws std::bad_alloc.
  virtual void compact(const Compaction& compaction);
  /// Empty: prompts can be compacted.
  virtual std::string why_not_compacted() const;

  /// Whether decode() looks at plans, and prefills at those of slices.
  virtual bool draws() const { return false; }

  /// To be called by a thread before it computes.
  virtual void bind_thread() {}

  // -- adapters: slices may choose one of several; a row depends on its own alone, and without one has the bits
  // that it has in a model without adapters. Between passes, on the thread that owns the device.

  /// `key` is above 0, and new. Throws LoadError for an adapter that this model cannot compute with, by the name of
  /// the matrix; std::bad_alloc.
  virtual void add_adapter(AdapterKey key, const Adapter& adapter);
  /// No slice chooses it any more.
  virtual void remove_adapter(AdapterKey) {}
  /// Of the device's memory.
  virtual std::uint64_t adapter_bytes(const Adapter& adapter) const { return adapter.bytes(); }

  virtual ModelRules rules() const = 0;

  /// Names all that decides the bits of its results beside weights, options and the build: which kernels, and on
  /// what. Constant once the model is loaded.
  virtual std::string arithmetic() const = 0;

 protected:
  Model(Checkpoint checkpoint, const ComputeOptions& options)
      : checkpoint_(std::move(checkpoint)), options_(options) {}

  const Checkpoint checkpoint_;
  const ComputeOptions options_;
  StateLayout state_;
};

/// Loads a model onto the CPU. `threads` must outlive the model. `packers` bring weights into order meanwhile, for a caller whose
/// `threads` are at work; null: `threads` do. Throws LoadError.
std::unique_ptr<Model> load_on_cpu(const std::filesystem::path& path, const ComputeOptions& options,
                                   gpu::Threads& threads, gpu::Threads* packers = nullptr,
                                   const LoadProgress& progress = {});

}  // namespace reprise::models
