#pragma once
// What whoever operates a server can see of it and do to it, beside what clients ask of it (protocol/service.h): its
// caches, the models of its configuration, and their adapters, which come and go while it runs.
//
// Threading: its tasks and asks belong to an actor's turn, as all asks do.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/cache_view.h"
#include "protocol/service.h"
#include "runtime/task.h"

namespace reprise::protocol {

/// Of all who use the cache; counted since the model was loaded first.
struct CacheCounts {
  std::uint64_t bytes = 0, budget_bytes = 0;  // that its snapshots hold now, and may hold
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
  std::string state;    // of the model: as name_of(ModelCard::State), or "unloaded"
  bool cached = false;  // it has a cache; else the rest says nothing
  CacheView view{};
  std::optional<CacheCounts> counts{};  // for who may see everybody's
};

struct TierState {
  Tier tier{};
  bool off = false;  // it takes nothing at present
  std::uint64_t bytes = 0, budget_bytes = 0, stored = 0, loaded = 0, evicted = 0;
};

struct ServerCache {
  std::vector<ModelCache> models{};  // those that are served, then those of the configuration that are not
  std::vector<TierState> tiers{};    // below the devices; for who may see everybody's
};

class ServerDesk {
 public:
  virtual ~ServerDesk() = default;

  virtual runtime::Task<ServerCache> view_cache(CacheScope scope, std::uint32_t most_nodes) = 0;
  /// All snapshots of a model that its device holds, by its name; answers how many. Tiers below keep theirs.
  virtual runtime::Task<Answer<std::uint64_t>> drop_cache(std::string model) = 0;
  /// A model of the configuration, by its name. Answered when it is ready; one that is there is answered at once.
  virtual runtime::Task<Answer<ModelCard>> load_model(std::string name) = 0;
  /// Answered when its memory is free. Requests that use it fail.
  virtual runtime::Task<Answer<std::string>> unload_model(std::string name) = 0;
};

// -- adapters

struct AdapterCard {
  std::string model{};
  std::string name{};
  std::uint32_t matrices = 0;  // that it changes
  std::uint32_t rank = 0;      // the largest
  std::uint64_t bytes = 0;     // of the device's state memory
  std::uint64_t fingerprint = 0;
};

/// An adapter of one model, as a client of the server may name it.
struct AdapterWish {
  std::string model{};  // empty: the first
  std::string name{};
  /// Within the folder that the server was given for it; empty: where the configuration says.
  std::string path{};
};

class AdapterDesk {
 public:
  virtual ~AdapterDesk() = default;

  /// Answered when requests may choose it. One that is there already is answered at once.
  virtual runtime::Ask<Answer<AdapterCard>> load_adapter(AdapterWish wish) = 0;
  /// Answered when its memory is free. Requests that use it fail, and say why.
  virtual runtime::Ask<Answer<AdapterCard>> unload_adapter(AdapterWish wish) = 0;
};

}  // namespace reprise::protocol
