#pragma once
// Which model is to be served, where and how; and what holds for requests to it.
//
// Threading: plain values.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/kv_budget.h"
#include "base/sampling.h"
#include "protocol/chat/system_place.h"

namespace reprise::actors {

/// An adapter to a model: a PEFT folder or a GGUF file.
struct AdapterSpec {
  std::string name;
  std::string path;
};

struct ModelSpec {
  std::string name;
  std::string path;
  std::string device{};  // a name that models/device.h knows; empty: the engine's own
  std::string compute = "auto";
  std::string kv_dtype = "auto";
  std::string isa{};
  KvBudget kv{};                        // of requests that do not say; how it is chosen, of all
  std::vector<AdapterSpec> adapters{};  // to be loaded with it

  std::vector<std::string> aliases{};  // further names of it
  std::vector<std::string> tags{};
  std::uint32_t context = 0;    // tokens of prompt and reply, where the model has more; 0: all it has
  std::string chat_template{};  // in place of its own; empty: its own
};

struct RequestRules {
  std::chrono::milliseconds longest_wait{60'000};  // for admission
  std::uint32_t most_choices = 16;
  double verify_share = 0;                      // of hits, recomputed cold and compared
  bool verify_inline = false;                   // before the answer ends; else in idle time, if there is any
  bool prefill_history = true;                  // of the next turn, in idle time
  std::uint32_t reply_checkpoint_tokens = 256;  // between two checkpoints inside a long reply; 0: none
  std::uint32_t reply_checkpoints = 8;          // of one reply that is prefilled in idle time, at most

  SamplingWishes sampling{};  // of requests that say nothing, before what the model's authors say
  std::optional<std::uint32_t> max_tokens{};  // of requests that say nothing; none: what the context leaves
  bool assume_chat = false;                   // a model without a template chats as ChatML does
  std::optional<std::uint32_t> reasoning_budget{};  // tokens, of chats that say nothing; none: unlimited
  std::optional<bool> thinking{};                   // of chats that say nothing; none: as the template has it
  protocol::SystemInPlace system_in_place{};        // of system messages that are not first
};

}  // namespace reprise::actors
