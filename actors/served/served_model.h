#pragma once
// A model as requests use it: what turns text into tokens and back, how it chats (card.chat), and whom to
// ask. Made by the supervisor when the model is loaded, made anew when it is reloaded after a fault; a
// request keeps the one it began with.
//
// Threading: immutable and shared; may be used from any thread.

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/cache/checkpoint_plan.h"
#include "actors/cache/prefix_registry.h"
#include "actors/served/constraint_book.h"
#include "actors/served/model_spec.h"
#include "actors/worker/device_worker.h"
#include "models/arch/config.h"
#include "models/text/tokenizer.h"
#include "protocol/chat/chat_format.h"
#include "protocol/job.h"
#include "protocol/service.h"

namespace reprise::actors {

/// An adapter as requests choose it: what it is to the worker, and what sets its states apart.
struct ServedAdapter {
  std::string name;
  protocol::AdapterLoaded loaded{};  // without meaning where it could not be loaded
  std::string error{};               // why not
  protocol::JobFault fault{};        // likewise

  bool ready() const { return error.empty(); }

  /// What the namespaces of its snapshots begin with: its fingerprint, which weights and scales are part of.
  std::string name_space() const {
    char text[40];
    std::snprintf(text, sizeof text, "adapter %016llx\n",
                  static_cast<unsigned long long>(loaded.fingerprint));
    return text;
  }
};

struct ServedModel {
  protocol::ModelCard card;
  models::TokenIds special;
  SamplingWishes sampling;
  std::shared_ptr<const models::Tokenizer> tokenizer;  // null: token ids alone
  std::shared_ptr<ConstraintBook> constraints;         // null as well then
  protocol::ArchLoaded arch;
  runtime::RefOf<DeviceWorker> worker;
  runtime::RefOf<PrefixRegistry> registry;  // null: the server runs without a cache
  std::shared_ptr<RegistryFigures> registry_figures;
  std::shared_ptr<protocol::TurnBook> turns;  // null: the server runs without a cache
  protocol::TurnStoreRef turn_store;          // nobody: turns do not outlast the process
  RequestRules limits;
  KvBudget kv;
  std::uint32_t least_tokens = 1;  // that a snapshot must have
  std::function<void(const std::string&)> warn;

  /// Where messages begin in a prompt; nothing where that is not known.
  protocol::MessageBorders borders(std::span<const TokenId> prompt) const {
    return card.chat == nullptr ? protocol::MessageBorders{} : card.chat->borders(prompt);
  }
  /// Its chats have marks of reasoning.
  bool has_reasoning() const {
    return tokenizer != nullptr && card.chat != nullptr && card.chat->reply_format().has_reasoning();
  }
  PlanRules plan_rules() const {
    // Spaced checkpoints of one prompt take at most an eighth of the memory.
    const std::uint64_t share = arch.slot_bytes == 0 ? 16 : arch.state_bytes / 8 / arch.slot_bytes;
    return {.grid = arch.grid,
            .any_token = arch.any_token,
            .least_tokens = least_tokens,
            .most_spaced = static_cast<std::uint32_t>(std::min<std::uint64_t>(share, 24))};
  }
  /// Tokens of one sequence that the device has memory for, beside a snapshot of its prompt where it is kept.
  std::uint64_t most_tokens(bool keeps_prompt) const {
    const std::uint64_t page_bytes = arch.token_bytes * arch.page_tokens;
    const std::uint64_t fixed = arch.slot_bytes + (keeps_prompt ? arch.slot_bytes + page_bytes : 0);
    if (arch.state_bytes < fixed) return 0;
    if (page_bytes == 0) return UINT32_MAX;
    return (arch.state_bytes - fixed) / page_bytes * arch.page_tokens;
  }
};

}  // namespace reprise::actors
