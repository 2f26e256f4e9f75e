#include "protocol/responses/response_store.h"

#include "base/check.h"

namespace reprise::protocol::responses {

std::size_t ResponseStore::size_of(const Key& key, const StoredResponse& response) {
  constexpr std::size_t kOverhead = 512;  // map and list nodes
  return kOverhead + 3 * (key.owner.tenant.size() + key.owner.salt.size() + key.id.size()) +
         response.body.size() + response.messages.size();
}

void ResponseStore::remove(std::map<Key, Entry>::iterator entry) {
  const std::size_t bytes = size_of(entry->first, entry->second.response);
  const auto held = held_.find(entry->first.owner.tenant);
  REPRISE_CHECK(held != held_.end() && held->second.bytes >= bytes && bytes_ >= bytes,
                "the count of stored bytes is below the size of a stored response");
  held->second.bytes -= bytes;
  bytes_ -= bytes;
  held->second.order.erase(entry->second.in_own_order);
  if (held->second.order.empty()) held_.erase(held);
  order_.erase(entry->second.in_order);
  entries_.erase(entry);
}

void ResponseStore::put(const ResponseOwner& owner, const std::string& id, StoredResponse response) {
  const std::lock_guard lock(mutex_);
  const Key key{owner, id};
  const std::size_t bytes = size_of(key, response);
  if (const auto old = entries_.find(key); old != entries_.end()) remove(old);
  if (bytes > limits_.tenant_bytes || bytes > limits_.bytes || limits_.responses == 0) return;
  for (auto held = held_.find(owner.tenant);
       held != held_.end() &&
       (held->second.bytes + bytes > limits_.tenant_bytes || held->second.order.size() >= limits_.responses);
       held = held_.find(owner.tenant)) {
    remove(entries_.find(held->second.order.front()));
  }
  while (bytes_ + bytes > limits_.bytes) remove(entries_.find(order_.front()));
  Held& held = held_[owner.tenant];
  order_.push_back(key);
  held.order.push_back(key);
  entries_.emplace(key, Entry{std::move(response), std::prev(order_.end()), std::prev(held.order.end())});
  held.bytes += bytes;
  bytes_ += bytes;
}

std::optional<StoredResponse> ResponseStore::find(const ResponseOwner& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(Key{owner, id});
  if (found == entries_.end()) return std::nullopt;
  order_.splice(order_.end(), order_, found->second.in_order);
  std::list<Key>& own = held_.at(found->first.owner.tenant).order;
  own.splice(own.end(), own, found->second.in_own_order);
  return found->second.response;
}

bool ResponseStore::erase(const ResponseOwner& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(Key{owner, id});
  if (found == entries_.end()) return false;
  remove(found);
  return true;
}

std::size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace reprise::protocol::responses
