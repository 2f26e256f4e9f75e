#include "tools/reprise/snapshot_recompute.h"

#include <cstring>
#include <new>

#include "gpu/state/state_store.h"

namespace reprise::tools {

using namespace protocol::snapshots;

namespace {

constexpr std::size_t kRecomputeSlice = 256;  // tokens; bounds the activations; a multiple of every grid

Refused differs(const std::string& what) {
  return {Refusal::kContents, what + " is not what this model computes from these tokens"};
}

}  // namespace

SnapshotRecompute::SnapshotRecompute(const EngineFlags& flags) : device_(open_device(flags)) {
  model_ = device_->load(flags.model, compute_options(flags), [](std::uint64_t, std::uint64_t) {});
  fingerprint_ = models::fingerprint_of(*model_);
}

bool SnapshotRecompute::can_judge(const Manifest& manifest) const {
  const gpu::StateSizes& sizes = model_->state().sizes();
  return manifest.kind.model == fingerprint_.identity() &&
         manifest.kind.arithmetic == fingerprint_.arithmetic &&
         manifest.kind.page_bytes == sizes.page_bytes && manifest.kind.slot_bytes == sizes.slot_bytes &&
         parts_of(manifest.name_space).adapter.empty() && manifest.stored == manifest.logical &&
         manifest.stored % model_->rules().grid == 0;
}

std::vector<float> SnapshotRecompute::append(gpu::Sequence& sequence, std::span<const TokenId> tokens) {
  std::vector<float> last;
  while (!tokens.empty()) {
    const std::size_t count = std::min(tokens.size(), kRecomputeSlice);
    const models::Slice slice{
        .sequence = &sequence,
        .tokens = tokens.first(count),
        .logits = count == tokens.size() ? models::Slice::Logits::kLast : models::Slice::Logits::kNone};
    const std::span<const float> logits = model_->forward({&slice, 1}, models::Phase::kPrefill);
    last.assign(logits.begin(), logits.end());
    tokens = tokens.subspan(count);
  }
  return last;
}

std::optional<Refused> SnapshotRecompute::compare(const Manifest& manifest,
                                                  std::span<const std::byte> state) {
  for (const TokenId token : manifest.tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= model_->config().vocab) {
      return Refused{Refusal::kContents, "the snapshot has a token that is not in the model's vocabulary"};
    }
  }
  const std::size_t pages = (manifest.stored + gpu::kPageTokens) / gpu::kPageTokens + 1;
  const gpu::StateSizes sizes = model_->state().sizes();
  gpu::StateStore store(sizes,
                        gpu::StateBounds{.pages = 3 * pages, .slots = 3, .memory = &device_->memory()});
  std::optional<gpu::Sequence> cold = store.open();
  if (!cold || !cold->reserve(manifest.stored + 1)) throw std::bad_alloc();
  append(*cold, manifest.tokens);
  const std::optional<gpu::Snapshot> captured = store.capture(*cold);
  if (!captured) throw std::bad_alloc();
  std::vector<std::byte> bytes(state.size());
  gpu::read_snapshot(store, *captured, 0, captured->pages().size(), true, bytes);
  const std::size_t full = manifest.full_pages() * sizes.page_bytes;
  if (std::memcmp(bytes.data(), state.data(), full) != 0) return differs("a page");
  if (std::memcmp(bytes.data() + bytes.size() - sizes.slot_bytes,
                  state.data() + state.size() - sizes.slot_bytes, sizes.slot_bytes) != 0) {
    return differs("its recurrent state");
  }
  if (!manifest.has_tail()) return std::nullopt;
  const auto owner = std::make_shared<std::vector<std::byte>>(state.begin(), state.end());
  std::optional<gpu::Sequence> kept =
      gpu::load_sequence(store, *owner, owner, manifest.stored, manifest.logical);
  if (!kept || !kept->reserve(1)) throw std::bad_alloc();
  const std::span<const TokenId> probe = std::span(manifest.tokens).first(1);
  const std::vector<float> from_kept = append(*kept, probe);
  const std::vector<float> from_cold = append(*cold, probe);
  if (std::memcmp(from_kept.data(), from_cold.data(), from_cold.size() * sizeof(float)) != 0) {
    return differs("its last page");
  }
  return std::nullopt;
}

}  // namespace reprise::tools
