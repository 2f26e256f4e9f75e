#include "actors/request/request_roll.h"

#include <algorithm>

namespace reprise::actors {

void RequestRoll::add(Entry entry) {
  const std::lock_guard lock(mutex_);
  if (requests_.size() >= prune_at_) {
    std::erase_if(requests_, [](const auto& one) { return one.request.stopped(); });
    prune_at_ = std::max<std::size_t>(64, requests_.size() * 2);
  }
  requests_.push_back(std::move(entry));
}

void RequestRoll::tell_all(const ModelLost& lost) {
  const std::lock_guard lock(mutex_);
  for (const Entry& one : requests_) {
    if (!one.request.stopped()) one.request.tell(lost);
  }
}

bool RequestRoll::end_reasoning(const std::string& reply_id, const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  bool found = false;
  for (const Entry& one : requests_) {
    if (reply_id.empty() || one.reply_id != reply_id || one.tenant != tenant) continue;
    if (one.meter->ended.load(std::memory_order_relaxed) || one.request.stopped()) continue;
    one.request.tell(EndReasoning{});
    found = true;
  }
  return found;
}

std::size_t RequestRoll::size() {
  const std::lock_guard lock(mutex_);
  std::erase_if(requests_, [](const auto& one) { return one.request.stopped(); });
  return requests_.size();
}

std::vector<protocol::RunningRequest> RequestRoll::running() const {
  const std::lock_guard lock(mutex_);
  std::vector<protocol::RunningRequest> running;
  for (const Entry& one : requests_) {
    const RequestMeter& meter = *one.meter;
    if (meter.ended.load(std::memory_order_relaxed) || one.request.stopped()) continue;
    running.push_back({.number = meter.number,
                       .model = meter.model,
                       .prompt_tokens = meter.prompt_tokens.load(std::memory_order_relaxed),
                       .reused_tokens = meter.reused_tokens.load(std::memory_order_relaxed),
                       .reply_tokens = meter.reply_tokens.load(std::memory_order_relaxed),
                       .most_reply_tokens = meter.most_reply_tokens.load(std::memory_order_relaxed)});
  }
  return running;
}

}  // namespace reprise::actors
