#pragma once
// NamedSnapshots: snapshots that clients have named, to go on from them again and again (from_snapshot). A name keeps the
// members of a body that make its prompt, and the ticket that pins the states computed for it (protocol/pin.h). Deleting a
// name drops the ticket, and with it the pin.
//
// A name is found under its tenant and cache_salt alone. It lives until it expires or is deleted; where a listener stores
// changes outside of the process (actors/tiers/store_io.h), load() brings it back after a restart.
//
// Bounds: kMaxNames and kMaxTenantBytes of a tenant, whatever its salts; kMaxBytes of all tenants. More are refused.
// Threading: any thread.

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

/// Who may see a name.
struct NameOwner {
  std::string tenant{};  // empty: the server has no keys
  std::string salt{};    // the cache_salt of its request; empty: none

  auto operator<=>(const NameOwner&) const = default;
};

struct NamedSnapshot {
  std::string name{};
  std::string model{};       // as the engine called it
  Json beginning{};          // the members of a body that make its prompt: messages, tools, ... or prompt
  std::uint32_t tokens = 0;  // of its prompt, when it was named
  std::int64_t created = 0;  // seconds since 1970
  std::int64_t expires = 0;
  bool pinned = true;        // its states are pinned while it lasts
  SharedPinTicket ticket{};  // null: not pinned. Not stored
};

/// A name that came, or one that went. It may have been replaced or deleted since: then another change follows.
struct NameChange {
  NameOwner owner{};
  std::string name{};
  bool went = false;
  std::weak_ptr<const NamedSnapshot> snapshot{};  // of one that came
};

/// A name as a store outside of the process keeps it.
struct StoredName {
  NameOwner owner{};
  NamedSnapshot snapshot{};
};
std::vector<std::byte> to_bytes(const NameOwner& owner, const NamedSnapshot& snapshot);
/// Refuses what is not whole.
std::optional<StoredName> stored_name_of(std::span<const std::byte> bytes);

class NamedSnapshots {
 public:
  static constexpr std::size_t kMaxNames = 64;
  static constexpr std::size_t kMaxTenantBytes = 16u << 20;
  static constexpr std::size_t kMaxBytes = 64u << 20;
  static constexpr std::chrono::seconds kMaxLife{7 * 24 * 3600};
  using Listener = std::function<void(NameChange)>;

  /// Replaces one of the same name. Returns the limit that it would exceed; nothing is kept then.
  [[nodiscard]] std::optional<std::string> put(const NameOwner& owner, NamedSnapshot snapshot,
                                               std::int64_t now);
  /// The limit that put() would return.
  std::optional<std::string> limit_for(const NameOwner& owner, const NamedSnapshot& snapshot,
                                       std::int64_t now);
  std::optional<NamedSnapshot> find(const NameOwner& owner, const std::string& name, std::int64_t now);
  /// By name.
  std::vector<NamedSnapshot> all(const NameOwner& owner, std::int64_t now);
  /// Returns false if there is none.
  bool drop(const NameOwner& owner, const std::string& name, std::int64_t now);

  /// Adds what a store kept, with a ticket of its own. What exceeds a limit, or exists already, is left out.
  void load(std::vector<StoredName> kept, std::int64_t now);
  /// Is told of each put() and drop() from then on, in their order, by the thread that made it. It must not call back.
  void set_listener(Listener listener);

 private:
  struct Kept {
    std::shared_ptr<const NamedSnapshot> snapshot;
    std::size_t bytes = 0;
  };
  using Names = std::map<std::pair<std::string, std::string>, Kept>;  // by salt and name
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
  std::map<std::string, Tenant> tenants_{};  // guarded by mutex_; those with names
  std::size_t bytes_ = 0;                    // guarded by mutex_
  Listener listener_{};                      // guarded by mutex_
};

}  // namespace reprise::protocol
