#include "protocol/chat/reasoning_book.h"

#include "base/digest.h"
#include "protocol/reply/reply_message.h"

namespace reprise::protocol {
namespace {

using HistoryKey = ReasoningBook::Key;

constexpr const char* kReasoning[] = {"reasoning_content", "reasoning"};

HistoryKey extend(const HistoryKey& before, std::string_view text) {
  HistoryKey key;
  for (std::uint64_t i = 0; i < key.size(); ++i)
    key[i] = Digest().add(before[0]).add(before[1]).add(i).add(text).value();
  return key;
}

/// What a message says, without its reasoning and without names that clients may change.
std::string said(const Json& message) {
  const Json plain = template_form(message);
  Json out = Json::object();
  for (const char* name : {"role", "content"}) {
    const Json* value = plain.find(name);
    out[name] = value == nullptr || value->is_null() ? Json("") : *value;
  }
  const Json::Array* calls = plain.find_array("tool_calls");
  for (const Json& call : calls == nullptr ? Json::Array() : *calls) {
    if (const Json* function = call.find("function")) out["calls"].push_back(*function);
  }
  return out.dump();
}

bool is_assistant(const Json& message) {
  const std::string* role = message.find_string("role");
  return role != nullptr && *role == "assistant";
}

const std::string* reasoning_of(const Json& message) {
  for (const char* name : kReasoning) {
    const std::string* text = message.find_string(name);
    if (text != nullptr && !text->empty()) return text;
  }
  return nullptr;
}

}  // namespace

std::uint32_t ReasoningBook::reattach(std::string_view owner, Json& messages, Key& history) {
  std::uint32_t attached = 0;
  history = extend({}, owner);
  if (!messages.is_array()) return attached;
  for (Json& message : messages.as_array()) {
    history = extend(history, said(message));
    if (!is_assistant(message) || reasoning_of(message) != nullptr) continue;
    const auto found = entries_.find(history);
    if (found == entries_.end()) continue;
    order_.splice(order_.end(), order_, found->second.place);
    message["reasoning_content"] = found->second.reasoning;
    ++attached;
  }
  return attached;
}

void ReasoningBook::keep(const Key& history, const Json& reply) {
  const std::string* reasoning = reasoning_of(reply);
  if (reasoning == nullptr || size_of(*reasoning) > limits_.bytes || limits_.replies == 0) return;
  const Key key = extend(history, said(reply));
  const auto forget = [&](std::map<Key, Entry>::iterator entry) {
    bytes_ -= size_of(entry->second.reasoning);
    order_.erase(entry->second.place);
    entries_.erase(entry);
  };
  if (const auto old = entries_.find(key); old != entries_.end()) forget(old);
  bytes_ += size_of(*reasoning);
  order_.push_back(key);
  entries_.emplace(key, Entry{*reasoning, std::prev(order_.end())});
  while (bytes_ > limits_.bytes || entries_.size() > limits_.replies) forget(entries_.find(order_.front()));
}

}  // namespace reprise::protocol
