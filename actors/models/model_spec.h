#pragma once
// The settings of a served model, and the rules for requests to it.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/kv_budget.h"
#include "base/sampling.h"
#include "protocol/chat/system_messages.h"

namespace reprise::actors {

/// An adapter of a model: a PEFT folder or a GGUF file.
struct AdapterSpec {
  std::string name;
  std::string path;
};

struct ModelSpec {
  std::string name;
  std::string path;
  std::string device{};  // as in models/device.h; empty: the engine's default
  std::string compute = "auto";
  std::string kv_dtype = "auto";
  std::string isa{};
  KvBudget kv{};                        // default of requests; the selection method applies to all
  std::vector<AdapterSpec> adapters{};  // loaded with the model

  std::vector<std::string> aliases{};  // further names
  std::vector<std::string> tags{};
  std::uint32_t context = 0;    // maximum tokens of prompt and reply; 0: the model's
  std::string chat_template{};  // replaces the model's; empty: the model's
};

struct RequestRules {
  std::chrono::milliseconds max_wait{60'000};  // maximum wait for admission
  std::uint32_t max_choices = 16;
  double verify_share = 0;                      // share of hits recomputed cold and compared
  bool verify_inline = false;                   // verify before the answer ends; false: in idle time, if any
  bool prefill_history = true;                  // prefill the next turn's history in idle time
  std::uint32_t reply_checkpoint_tokens = 256;  // tokens between checkpoints inside a long reply; 0: none
  std::uint32_t reply_checkpoints = 8;          // maximum per reply prefilled in idle time

  SamplingOverrides sampling{};               // defaults of requests, before those of the model's authors
  std::optional<std::uint32_t> max_tokens{};  // default of requests; none: the remaining context
  bool assume_chat = false;                   // a model without a template uses ChatML
  std::optional<std::uint32_t> reasoning_budget{};  // default of chats, tokens; none: unlimited
  std::optional<bool> thinking{};                   // default of chats; none: the template's
  protocol::SystemMessageMode system_in_place{};    // for system messages that are not first
};

}  // namespace reprise::actors
