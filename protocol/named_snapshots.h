#pragma once
// NamedSnapshots: snapshots that clients have named, so that later requests can continue from them
// (from_snapshot). An entry keeps the members of a request body that make its prompt, and the ticket that
// pins its states (protocol/pin.h). Deleting the name drops the ticket, which ends the pin.
//
// Names are scoped by tenant and cache_salt, and live until they expire or are deleted. If a listener stores
// changes outside the process (actors/tiers/store_io.h), load() restores them after a restart.
//
// Bounds: kMaxNames and kMaxTenantBytes per tenant over all salts, kMaxBytes over all tenants; more is
// refused. Threading: any thread.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "protocol/pin.h"

namespace reprise::protocol {

/// Scope of a name.
struct NameOwner {
  std::string tenant{};  // empty: the server has no keys
  std::string salt{};    // cache_salt of the request; empty: none

  auto operator<=>(const NameOwner&) const = default;
};

struct NamedSnapshot {
  std::string name{};
  std::string model{};       // id of the model, as the engine reported it
  Json beginning{};          // body members that make the prompt: messages, tools, ... or prompt
  std::uint32_t tokens = 0;  // prompt tokens when it was named
  std::int64_t created = 0;  // seconds since 1970
  std::int64_t expires = 0;
  bool pinned = true;        // the states are pinned while the entry lives
  SharedPinTicket ticket{};  // null: not pinned; not stored
};

/// An added or removed name. The name may have changed again since, in which case another change follows.
struct NameChange {
  NameOwner owner{};
  std::string name{};
  bool went = false;
  std::weak_ptr<const NamedSnapshot> snapshot{};  // null for a removed name
};

struct StoredName {
  NameOwner owner{};
  NamedSnapshot snapshot{};
};
std::vector<std::byte> to_bytes(const NameOwner& owner, const NamedSnapshot& snapshot);
/// Returns nothing if `bytes` are incomplete or malformed.
std::optional<StoredName> stored_name_of(std::span<const std::byte> bytes);

class NamedSnapshots {
 public:
  static constexpr std::size_t kMaxNames = 64;
  static constexpr std::size_t kMaxTenantBytes = 16u << 20;
  static constexpr std::size_t kMaxBytes = 64u << 20;
  static constexpr std::chrono::seconds kMaxLife{7 * 24 * 3600};
  using Listener = std::function<void(NameChange)>;

  /// Adds or replaces a name. Returns the limit that it would exceed, in which case nothing changes.
  [[nodiscard]] std::optional<std::string> put(const NameOwner& owner, NamedSnapshot snapshot,
                                               std::int64_t now);
  std::optional<std::string> limit_for(const NameOwner& owner, const NamedSnapshot& snapshot,
                                       std::int64_t now);
  std::optional<NamedSnapshot> find(const NameOwner& owner, const std::string& name, std::int64_t now);
  /// Returns the owner's snapshots, sorted by name.
  std::vector<NamedSnapshot> all(const NameOwner& owner, std::int64_t now);
  /// Returns false if there is no such name.
  bool drop(const NameOwner& owner, const std::string& name, std::int64_t now);

  /// Adds names from a store and gives each a new ticket. Skips names that exist or would exceed a limit.
  void load(std::vector<StoredName> kept, std::int64_t now);
  /// Sets the function that is called for each later put() and drop(), in order, on the calling thread. It
  /// must not call back.
  void set_listener(Listener listener);

 private:
  struct Kept {
    std::shared_ptr<const NamedSnapshot> snapshot;
    std::size_t bytes = 0;
  };
  using Names = std::map<std::pair<std::string, std::string>, Kept>;  // keyed by salt and name
  struct Tenant {
    Names names{};
    std::size_t bytes = 0;
  };
  static std::size_t size_of(const NameOwner& owner, const NamedSnapshot& snapshot);

  void expire(std::int64_t now);
  void take(Tenant& tenant, Names::iterator which);
  std::optional<std::string> limit(const NameOwner& owner, const std::string& name, std::size_t bytes) const;
  void add(const NameOwner& owner, std::shared_ptr<const NamedSnapshot> snapshot, std::size_t bytes);

  mutable std::mutex mutex_;
  std::map<std::string, Tenant> tenants_{};  // tenants with at least one name; guarded by mutex_
  std::size_t bytes_ = 0;                    // guarded by mutex_
  Listener listener_{};                      // guarded by mutex_
};

}  // namespace reprise::protocol
