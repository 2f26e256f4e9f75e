#include "actors/worker/loaded_arch.h"

#include <algorithm>

#include "base/token_hash.h"

namespace reprise::actors {

using gpu::kPageTokens;

namespace {

ModelFacts facts_of(const StepRunner& runner) {
  const models::Model& model = runner.model();
  return {.sizes = model.state().sizes(),
          .rules = runner.model().rules(),
          .vocab = static_cast<std::uint32_t>(model.config().vocab),
          .draws = model.draws()};
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
    : StateTable(generation, facts_of(*runner), budget, memory),
      budget_(budget),
      runner_(std::move(runner)) {}

protocol::ArchLoaded LoadedArch::describe() const {
  const models::ModelConfig& config = model().config();
  return {.arch = id(),
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
          .decode_is_canonical = rules().decode_is_canonical,
          .fingerprint = fingerprint_of(model())};
}

}  // namespace reprise::actors
