#include "tools/reprise/snapshot_recompute.h"

#include <cstring>
#include <new>

#include "base/check.h"
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
         manifest.kind.page_tokens == gpu::kPageTokens && parts_of(manifest.name_space).adapter.empty() &&
         manifest.stored == manifest.logical && manifest.stored % model_->rules().grid == 0;
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
                        gpu::StateBounds{.pages = 4 * pages, .slots = 4, .memory = &device_->memory()});
  std::optional<gpu::Sequence> cold = store.open();
  if (!cold || !cold->reserve(manifest.stored)) throw std::bad_alloc();
  append(*cold, manifest.tokens);
  const std::size_t full = manifest.full_pages();
  const auto bytes_from = [&](const gpu::Sequence& sequence, std::size_t first_page) {
    const std::optional<gpu::Snapshot> captured = store.capture(sequence);
    if (!captured) throw std::bad_alloc();
    const std::size_t count = captured->pages().size() - first_page;
    std::vector<std::byte> bytes(count * sizes.page_bytes + sizes.slot_bytes);
    gpu::read_snapshot(store, *captured, first_page, count, true, bytes);
    return bytes;
  };
  const std::vector<std::byte> bytes = bytes_from(*cold, 0);
  REPRISE_CHECK(bytes.size() == state.size(), "a state's size is not what its manifest says");
  if (std::memcmp(bytes.data(), state.data(), full * sizes.page_bytes) != 0) return differs("a page");
  if (std::memcmp(bytes.data() + bytes.size() - sizes.slot_bytes,
                  state.data() + state.size() - sizes.slot_bytes, sizes.slot_bytes) != 0) {
    return differs("its recurrent state");
  }
  if (!manifest.has_tail()) return std::nullopt;
  // The tail has unspecified bytes after its tokens. Filled up with the same tokens, both pages are equal in
  // every byte.
  const auto owner = std::make_shared<std::vector<std::byte>>(state.begin(), state.end());
  std::optional<gpu::Sequence> kept =
      gpu::load_sequence(store, *owner, owner, manifest.stored, manifest.logical);
  TokenList fill;
  for (std::size_t i = 0; (manifest.stored + i) % gpu::kPageTokens != 0; ++i) {
    fill.push_back(manifest.tokens[i % manifest.tokens.size()]);
  }
  const auto fill_up = [&](gpu::Sequence& sequence) {
    if (!sequence.reserve(static_cast<std::uint32_t>(fill.size()))) throw std::bad_alloc();
    append(sequence, fill);
    return bytes_from(sequence, full);
  };
  if (!kept) throw std::bad_alloc();
  if (fill_up(*kept) != fill_up(*cold)) return differs("its last page");
  return std::nullopt;
}

}  // namespace reprise::tools
