#pragma once
// A loaded model as requests use it: tokenizer, chat format (card.chat), and the actors to ask. Created by
// the supervisor at each load, also after a fault; a request keeps the one it began with.
//
// Threading: immutable; any thread.

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/cache/checkpoint_plan.h"
#include "actors/models/model_spec.h"
#include "models/arch/token_ids.h"
#include "protocol/chat/chat_format.h"
#include "protocol/jobs/models.h"
#include "protocol/jobs/sequences.h"
#include "protocol/registry.h"
#include "protocol/service.h"
#include "protocol/tier.h"

namespace reprise::models {
class Tokenizer;
}

namespace reprise::actors {

class GrammarCache;
struct RegistryFigures;

/// An adapter as requests use it: its handle in the worker, and its cache namespace.
struct ServedAdapter {
  std::string name;
  protocol::AdapterLoaded loaded{};  // unspecified if it could not be loaded
  std::string error{};               // why it could not be loaded; empty: it is loaded
  protocol::ErrorKind fault{};       // likewise

  bool ready() const { return error.empty(); }

  /// Returns the prefix of its states' cache namespaces: its fingerprint, which covers weights and scales.
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
  SamplingOverrides sampling;
  std::shared_ptr<const models::Tokenizer> tokenizer;  // null: only token ids are accepted
  std::shared_ptr<GrammarCache> constraints;           // null without a tokenizer
  protocol::ArchLoaded arch;
  protocol::SequenceRef worker;
  protocol::RegistryRef registry;  // null: the server runs without a cache
  std::shared_ptr<RegistryFigures> registry_figures;
  std::shared_ptr<protocol::TurnCache> turns;  // null: the server runs without a cache
  protocol::TurnStoreRef turn_store;           // null: turns do not outlast the process
  RequestRules limits;
  KvBudget kv;
  CheckpointRules checkpoints;
  std::function<void(const std::string&)> warn;

  /// Returns where messages begin in a prompt; empty if unknown.
  protocol::MessageBorders borders(std::span<const TokenId> prompt) const {
    return card.chat == nullptr ? protocol::MessageBorders{} : card.chat->borders(prompt);
  }
  /// Returns true if its chat format has reasoning tags.
  bool has_reasoning() const {
    return tokenizer != nullptr && card.chat != nullptr && card.chat->reply_format().has_reasoning();
  }
  /// Returns the tokens of one sequence that fit the device's memory, together with a snapshot of its prompt
  /// if kept.
  std::uint64_t max_tokens(bool keeps_prompt) const {
    const std::uint64_t page_bytes = arch.token_bytes * arch.page_tokens;
    const std::uint64_t fixed = arch.slot_bytes + (keeps_prompt ? arch.slot_bytes + page_bytes : 0);
    if (arch.state_bytes < fixed) return 0;
    if (page_bytes == 0) return UINT32_MAX;
    return (arch.state_bytes - fixed) / page_bytes * arch.page_tokens;
  }
};

}  // namespace reprise::actors
