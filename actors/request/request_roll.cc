#include "actors/request/request_roll.h"

#include <algorithm>

namespace reprise::actors {

void RequestRoll::add(runtime::RefOf<RequestActor> request) {
  const std::lock_guard lock(mutex_);
  if (requests_.size() >= prune_at_) {
    std::erase_if(requests_, [](const auto& one) { return one.stopped(); });
    prune_at_ = std::max<std::size_t>(64, requests_.size() * 2);
  }
  requests_.push_back(std::move(request));
}

void RequestRoll::tell_all(const ModelLost& lost) {
  const std::lock_guard lock(mutex_);
  for (const auto& request : requests_) {
    if (!request.stopped()) request.tell(lost);
  }
}

std::size_t RequestRoll::size() {
  const std::lock_guard lock(mutex_);
  std::erase_if(requests_, [](const auto& one) { return one.stopped(); });
  return requests_.size();
}

}  // namespace reprise::actors
