#pragma once
// Interfaces for the server's operator, besides the requests of clients (protocol/service.h): ServerAdmin
// inspects and clears caches and loads configured models; AdapterAdmin loads and drops adapters while the
// server runs.
//
// Threading: call within an actor's turn.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/cache_view.h"
#include "protocol/service.h"
#include "runtime/task.h"

namespace reprise::protocol {

/// Counters over all tenants since the model was first loaded.
struct CacheCounts {
  std::uint64_t bytes = 0, budget_bytes = 0;  // current size of the snapshots, and its limit
  std::uint64_t entries = 0, path_tokens = 0, computing = 0;
  std::uint64_t lookups = 0, prompt_tokens = 0, restored_tokens = 0;
  std::uint64_t evicted = 0, expired = 0, superseded = 0;
  std::array<std::uint64_t, kMissReasons> by_reason{};
  std::array<std::uint64_t, kMissReasons> lost_tokens{};
  std::array<std::uint64_t, kOrigins> hits{};
  std::array<std::uint64_t, kOrigins> inserts{};
};

struct ModelCache {
  std::string model;
  std::string state;    // the model's state: name_of(ModelCard::State), or "unloaded"
  bool cached = false;  // false: the model has no cache, and the other members are empty
  CacheView view{};
  std::optional<CacheCounts> counts{};  // only for callers who may see all owners
};

struct TierState {
  Tier tier{};
  bool off = false;  // the tier accepts no states at present
  std::uint64_t bytes = 0, budget_bytes = 0, stored = 0, loaded = 0, evicted = 0;
};

struct ServerCache {
  std::vector<ModelCache> models{};  // loaded models, then configured models that are not loaded
  std::vector<TierState> tiers{};    // tiers below the devices; only for callers who may see all owners
};

class ServerAdmin {
 public:
  virtual ~ServerAdmin() = default;

  virtual runtime::Task<ServerCache> view_cache(CacheScope scope, std::uint32_t max_nodes) = 0;
  /// Drops all snapshots of the named model from its device and returns their number. Lower tiers keep
  /// theirs.
  virtual runtime::Task<Answer<std::uint64_t>> drop_cache(std::string model) = 0;
  /// Loads a configured model by name. Answered when it is ready; at once if it is loaded.
  virtual runtime::Task<Answer<ModelCard>> load_model(std::string name) = 0;
  /// Unloads a model. Answered when its memory is free. Requests that use it fail.
  virtual runtime::Task<Answer<std::string>> unload_model(std::string name) = 0;
};

// -- adapters

struct AdapterCard {
  std::string model{};
  std::string name{};
  std::uint32_t matrices = 0;  // number of matrices it changes
  std::uint32_t rank = 0;      // the largest rank
  std::uint64_t bytes = 0;     // taken from the device's state memory
  std::uint64_t fingerprint = 0;
};

struct AdapterRequest {
  std::string model{};  // empty: the first model
  std::string name{};
  /// Path within the server's adapter folder; empty: the path from the configuration.
  std::string path{};
};

class AdapterAdmin {
 public:
  virtual ~AdapterAdmin() = default;

  /// Loads an adapter. Answered when requests may use it; at once if it is loaded.
  virtual runtime::Ask<Answer<AdapterCard>> load_adapter(AdapterRequest request) = 0;
  /// Unloads an adapter. Answered when its memory is free. Requests that use it fail with the reason.
  virtual runtime::Ask<Answer<AdapterCard>> unload_adapter(AdapterRequest request) = 0;
};

}  // namespace reprise::protocol
