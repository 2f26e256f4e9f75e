#pragma once
// Stores responses that clients may refer to later: by previous_response_id, or to read or delete them.
//
// A response is visible only to the tenant and cache_salt of its request. Bounds: a number of responses and
// bytes per tenant, across all its salts, and bytes in total; beyond them the least recently used responses
// are dropped. Nothing survives the server.
//
// Threading: any thread.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace reprise::protocol::responses {

struct StoreLimits {
  std::size_t responses = 1024;          // per tenant
  std::size_t tenant_bytes = 64u << 20;  // per tenant
  std::size_t bytes = 256u << 20;
};

struct StoredResponse {
  std::string body;      // JSON
  std::string messages;  // the conversation including the reply, without instructions, as JSON
};

struct ResponseOwner {
  std::string tenant{};  // empty: the server has no keys
  std::string salt{};    // cache_salt of its request; empty: none

  auto operator<=>(const ResponseOwner&) const = default;
};

class ResponseStore {
 public:
  explicit ResponseStore(StoreLimits limits = {}) : limits_(limits) {}

  /// Drops the response if it alone exceeds the tenant's bound.
  void put(const ResponseOwner& owner, const std::string& id, StoredResponse response);
  std::optional<StoredResponse> find(const ResponseOwner& owner, const std::string& id);
  /// Returns false if there was none.
  bool erase(const ResponseOwner& owner, const std::string& id);

  std::size_t bytes() const;

 private:
  struct Key {
    ResponseOwner owner;
    std::string id;

    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    StoredResponse response;
    std::list<Key>::iterator in_order;
    std::list<Key>::iterator in_own_order;  // in its tenant's order
  };
  struct Held {
    std::size_t bytes = 0;
    std::list<Key> order{};  // least recently used first
  };
  static std::size_t size_of(const Key& key, const StoredResponse& response);
  void remove(std::map<Key, Entry>::iterator entry);

  const StoreLimits limits_;
  mutable std::mutex mutex_;
  std::map<Key, Entry> entries_;      // guarded by mutex_
  std::list<Key> order_;              // guarded by mutex_; least recently used first
  std::map<std::string, Held> held_;  // guarded by mutex_; by tenant
  std::size_t bytes_ = 0;             // guarded by mutex_
};

}  // namespace reprise::protocol::responses
