#pragma once
// Responses that clients may come back to: by previous_response_id, or to read or delete them.
//
// A response is found under the tenant and the cache_salt of its request alone. Bounds, whatever the salts: so many responses and bytes of a tenant, so many bytes of all; who has more
// loses those that were used least recently. They are gone when the server ends.
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
  std::size_t responses = 1024;          // of a tenant
  std::size_t tenant_bytes = 64u << 20;  // of a tenant
  std::size_t bytes = 256u << 20;        // of all
};

struct StoredResponse {
  std::string body;      // the response, as JSON
  std::string messages;  // of the conversation with the reply, without instructions, as JSON
};

/// Who may see a response.
struct ResponseOwner {
  std::string tenant{};  // empty: the server has no keys
  std::string salt{};    // the cache_salt of its request; empty: none

  auto operator<=>(const ResponseOwner&) const = default;
};

class ResponseStore {
 public:
  explicit ResponseStore(StoreLimits limits = {}) : limits_(limits) {}

  /// One that is larger than all that a tenant may have is not kept.
  void put(const ResponseOwner& owner, const std::string& id, StoredResponse response);
  std::optional<StoredResponse> find(const ResponseOwner& owner, const std::string& id);
  /// Whether there was one.
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
    std::list<Key>::iterator place;      // in order_
    std::list<Key>::iterator own_place;  // in its tenant's order
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
