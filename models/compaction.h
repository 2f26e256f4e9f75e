#pragma once
// A prompt whose keys and values become fewer, between its last slice and the first decoded token (base/kv_budget.h).
//
// Layers that keep all tokens choose among them; those with a window keep it as it is, and recurrent ones have nothing to
// choose. A sequence has one stored length for all layers, so a model in which some layer can only keep all is refused whole.
//
// Threading: plain values and a pure function.

#include <span>
#include <string>

#include "base/kv_budget.h"
#include "gpu/state_store.h"
#include "models/parts/layer_spec.h"
#include "models/prompt_tail.h"

namespace reprise::models {

struct Compaction {
  const gpu::Sequence* sequence;  // that holds the prompt, all of it, and nothing behind it
  const PromptTail* tail;         // that covers it
  KvBudget budget;                // shorter than the prompt
  gpu::PageRun* into;             // with room for budget.tokens
};

/// Why prompts of a model of such layers cannot be compacted; empty: they can.
std::string why_not_compacted(std::span<const LayerSpec> layers);

}  // namespace reprise::models
