#include "actors/worker/loaded_arch.h"

namespace reprise::actors {

using gpu::kPageTokens;

namespace {

ModelFacts facts_of(const StepRunner& runner) {
  const models::Model& model = runner.model();
  return {.sizes = model.state().sizes(),
          .rules = runner.model().rules(),
          .vocab = static_cast<std::uint32_t>(model.config().vocab),
          .hidden = static_cast<std::uint32_t>(model.config().hidden),
          .tail_bytes = model.why_not_compacted().empty() ? model.state().tail_bytes() : 0,
          .draws = model.draws()};
}

}  // namespace

LoadedArch::LoadedArch(std::uint32_t generation, std::unique_ptr<StepRunner> runner,
                       const models::Fingerprint& fingerprint, gpu::ByteBudget& budget,
                       gpu::BlockMemory* memory)
    : StateTable(generation, facts_of(*runner), budget, memory),
      budget_(budget),
      fingerprint_(fingerprint),
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
          .no_compaction = model().why_not_compacted(),
          .hidden = rules().gives_hidden ? facts().hidden : 0,
          .fingerprint = fingerprint_.all(),
          .arithmetic = fingerprint_.arithmetic,
          .identity = fingerprint_.identity()};
}

}  // namespace reprise::actors
