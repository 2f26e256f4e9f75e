#pragma once
// Computes the states of snapshots anew, from their tokens, and compares: `reprise snapshot verify --recompute`. What a
// seal cannot tell is whether the state in it was ever right; this does.
//
// Full pages and the slot must have the same bytes. Of the last page, which has tokens in a part of it alone, the next
// token's logits must have the same bits when they are computed with it.
//
// Threading: one thread.

#include <cstdint>
#include <memory>
#include <optional>

#include "models/fingerprint.h"
#include "models/model.h"
#include "tools/reprise/engine_flags.h"
#include "tools/reprise/snapshot_files.h"

namespace reprise::tools {

class SnapshotRecompute {
 public:
  /// Throws UsageError, models::LoadError.
  explicit SnapshotRecompute(const EngineFlags& flags);

  /// Whether it is of this model, as this build computes it here, without an adapter: else it cannot be compared.
  bool can_judge(const protocol::snapshots::Manifest& manifest) const;

  /// Nothing: it is what a cold run gives. `state`: as read_state() gives it.
  std::optional<protocol::snapshots::Refused> compare(const protocol::snapshots::Manifest& manifest,
                                                      std::span<const std::byte> state);

 private:
  /// Appends tokens; the logits of the last.
  std::vector<float> append(gpu::Sequence& sequence, std::span<const TokenId> tokens);

  std::unique_ptr<models::Device> device_;
  std::unique_ptr<models::Model> model_;
  models::Fingerprint fingerprint_;
};

}  // namespace reprise::tools
