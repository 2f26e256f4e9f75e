#pragma once
// Responses that clients may come back to: by previous_response_id, or to read or delete them.
//
// A tenant finds its own alone. Bounds: so many responses and bytes of a tenant, so many bytes of all; who has more
// loses those that were used least recently. They are gone when the server ends.
//
// Threading: any thread.

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

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

class ResponseStore {
 public:
  explicit ResponseStore(StoreLimits limits = {}) : limits_(limits) {}

  /// One that is larger than all that a tenant may have is not kept.
  void put(std::string_view tenant, const std::string& id, StoredResponse response);
  std::optional<StoredResponse> find(std::string_view tenant, const std::string& id);
  /// Whether there was one.
  bool erase(std::string_view tenant, const std::string& id);

  std::size_t bytes() const;

 private:
  using Key = std::pair<std::string, std::string>;  // tenant, id
  struct Entry {
    StoredResponse response;
    std::list<Key>::iterator place;              // in order_
    std::list<std::string>::iterator own_place;  // in its tenant's order
  };
  struct Held {
    std::size_t bytes = 0;
    std::list<std::string> order{};  // ids, least recently used first
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
