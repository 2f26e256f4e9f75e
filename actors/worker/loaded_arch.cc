#include "actors/worker/loaded_arch.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace reprise::actors {

using gpu::kPageTokens;

namespace {

std::size_t fitting(std::size_t limit, std::size_t block_bytes) {
  constexpr std::size_t kMost = 1U << 24;  // blocks that cost nothing are not endless either
  return block_bytes == 0 ? kMost : std::min(kMost, limit / block_bytes);
}

std::unique_ptr<gpu::StateStore> make_store(const models::Model& model, gpu::ByteBudget& budget,
                                            gpu::BlockMemory* memory) {
  const gpu::StateSizes sizes = model.state().sizes();
  return std::make_unique<gpu::StateStore>(
      sizes, gpu::StateBounds{.pages = fitting(budget.limit(), sizes.page_bytes),
                              .slots = fitting(budget.limit(), sizes.slot_bytes),
                              .budget = &budget,
                              .memory = memory});
}

// Of all that decides the bits of a state, as far as it can be told cheaply: names, shapes, a sample of the
// weights, the compute settings.
std::uint64_t fingerprint_of(const models::Model& model) {
  std::uint64_t hash = 0;
  const auto add = [&hash](std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      const auto token = static_cast<TokenId>(byte);
      hash = token_hash({&token, 1}, hash);
    }
  };
  const auto add_number = [&](std::uint64_t number) { add(std::as_bytes(std::span(&number, 1))); };
  for (const std::string& name : model.checkpoint().names()) {
    add(std::as_bytes(std::span(name)));
    const models::Tensor tensor = model.checkpoint().tensor(name);
    add_number(tensor.bytes.size());
    add(tensor.bytes.first(std::min<std::size_t>(64, tensor.bytes.size())));
    add(tensor.bytes.last(std::min<std::size_t>(64, tensor.bytes.size())));
  }
  const models::ComputeOptions& options = model.options();
  for (const std::uint64_t setting :
       {static_cast<std::uint64_t>(options.compute), static_cast<std::uint64_t>(options.kv),
        static_cast<std::uint64_t>(options.isa)}) {
    add_number(setting);
  }
  return hash;
}

}  // namespace

LoadedArch::LoadedArch(std::uint32_t generation, std::unique_ptr<StepRunner> runner, gpu::ByteBudget& budget,
                       gpu::BlockMemory* memory)
    : generation_(generation),
      budget_(budget),
      store_holder_(make_store(runner->model(), budget, memory)),
      store_(*store_holder_),
      adopted_(store_.sizes()),
      runner_(std::move(runner)) {}

protocol::ArchLoaded LoadedArch::describe() const {
  const models::ModelConfig& config = model().config();
  return {.arch = {.generation = generation_, .number = generation_},
          .device = {},
          .architecture = config.architecture,
          .vocab = static_cast<std::uint32_t>(config.vocab),
          .context = static_cast<std::uint32_t>(config.context_length),
          .layers = static_cast<std::uint32_t>(config.layers.size()),
          .weight_bytes = model().checkpoint().total_bytes(),
          .token_bytes = page_bytes() / kPageTokens,
          .slot_bytes = slot_bytes(),
          .state_bytes = budget_.limit(),
          .page_tokens = kPageTokens,
          .grid = rules().grid,
          .any_token = model().state().attention_only(),
          .decode_is_canonical = rules().decode_is_prefill,
          .fingerprint = fingerprint_of(model())};
}

std::uint64_t LoadedArch::price(std::uint64_t tokens, std::uint64_t shared) const {
  const std::uint64_t pages = (tokens + kPageTokens - 1) / kPageTokens;
  return slot_bytes() + (pages - std::min(pages, shared / kPageTokens)) * page_bytes();
}

SequenceRun* LoadedArch::find(protocol::SequenceId id) {
  if (id.generation != generation_) return nullptr;
  const auto found = sequences_.find(id.number);
  return found == sequences_.end() || found->second.closing ? nullptr : &found->second;
}

SnapshotRecord* LoadedArch::find(protocol::SnapshotId id) {
  if (id.generation != generation_) return nullptr;
  const auto found = snapshots_.find(id.number);
  return found == snapshots_.end() ? nullptr : &found->second;
}

SequenceRun* LoadedArch::find_ticket(std::uint64_t ticket) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return nullptr;
  return find(protocol::SequenceId{.generation = generation_, .number = found->second});
}

SequenceRun& LoadedArch::add_sequence(std::uint64_t ticket) {
  const std::uint64_t number = next_number_++;
  tickets_[ticket] = number;
  SequenceRun& run = sequences_[number];
  run.id = {.generation = generation_, .number = number};
  run.ticket = ticket;
  run.order = number;
  return run;
}

protocol::SnapshotId LoadedArch::add_snapshot(SnapshotRecord record) {
  const protocol::SnapshotId id{.generation = generation_, .number = next_number_++};
  if (const auto owner = sequences_.find(record.owner.number); owner != sequences_.end()) {
    owner->second.snapshots.push_back(id);
  }
  snapshots_.emplace(id.number, std::move(record));
  return id;
}

void LoadedArch::remove(protocol::SequenceId id) {
  const auto found = sequences_.find(id.number);
  if (found == sequences_.end()) return;
  REPRISE_CHECK(!found->second.in_step, "a sequence was removed while it was being computed");
  for (const protocol::SnapshotId snapshot : found->second.snapshots) {
    const auto record = snapshots_.find(snapshot.number);
    if (record != snapshots_.end() && !record->second.adopted) snapshots_.erase(record);
  }
  tickets_.erase(found->second.ticket);
  sequences_.erase(found);
}

std::uint64_t LoadedArch::remove(protocol::SnapshotId id) {
  const auto found = snapshots_.find(id.number);
  if (id.generation != generation_ || found == snapshots_.end()) return 0;
  const std::uint64_t before = budget_.used();
  if (found->second.adopted) adopted_.remove(found->second.state);
  snapshots_.erase(found);
  return before - budget_.used();
}

}  // namespace reprise::actors
