#pragma once
// `reprise snapshot verify --recompute`: recomputes states from their tokens and compares. A seal proves only
// that a state is unchanged, not that it was right.
//
// Full pages and the slot must be equal byte for byte. A partial last page is compared by its effect: the
// next token's logits, computed with it, must be bitwise identical.

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
  /// Throws UsageError and models::LoadError.
  explicit SnapshotRecompute(const EngineFlags& flags);

  /// Returns whether the snapshot is of this model without adapter, as this build computes it on this
  /// machine.
  bool can_judge(const protocol::snapshots::Manifest& manifest) const;

  /// Returns nullopt if `state` (from read_state()) equals that of a cold run, else the difference.
  std::optional<protocol::snapshots::Refused> compare(const protocol::snapshots::Manifest& manifest,
                                                      std::span<const std::byte> state);

 private:
  /// Appends tokens and returns the logits of the last one.
  std::vector<float> append(gpu::Sequence& sequence, std::span<const TokenId> tokens);

  std::unique_ptr<models::Device> device_;
  std::unique_ptr<models::Model> model_;
  models::Fingerprint fingerprint_;
};

}  // namespace reprise::tools
