// The engine's numbers, as Prometheus names such things.

#include "actors/engine_parts.h"

namespace reprise::actors {

using protocol::Figure;

namespace {

class Listing {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  template <class Value>
  void counter(const char* name, const char* help, const Value& value, Labels labels = {}) {
    add(Figure::Kind::kCounter, name, help, value, std::move(labels));
  }
  template <class Value>
  void gauge(const char* name, const char* help, const Value& value, Labels labels = {}) {
    add(Figure::Kind::kGauge, name, help, value, std::move(labels));
  }
  std::vector<Figure> take() { return std::move(figures_); }

 private:
  template <class Value>
  void add(Figure::Kind kind, const char* name, const char* help, const Value& value, Labels labels) {
    figures_.push_back(
        {kind, std::string("reprise_") + name, help, std::move(labels), static_cast<double>(value)});
  }
  std::vector<Figure> figures_;
};

std::uint64_t read(const std::atomic<std::uint64_t>& figure) {
  return figure.load(std::memory_order_relaxed);
}

/// Of all devices together.
class Together {
 public:
  explicit Together(const std::map<std::string, DeviceBoard::Figures>& devices) : devices_(devices) {}

  std::uint64_t operator()(std::atomic<std::uint64_t> WorkerFigures::*figure) const {
    std::uint64_t sum = 0;
    for (const auto& [name, figures] : devices_) sum += read((*figures).*figure);
    return sum;
  }

 private:
  const std::map<std::string, DeviceBoard::Figures>& devices_;
};

void list_devices(const std::map<std::string, DeviceBoard::Figures>& devices, Listing& list) {
  const Together all(devices);
  list.counter("steps_total", "Steps computed, over all devices.", all(&WorkerFigures::steps));
  list.counter("prefill_tokens_total", "Prompt tokens computed.", all(&WorkerFigures::prefill_tokens));
  list.counter("decode_tokens_total", "Reply tokens decoded.", all(&WorkerFigures::decode_tokens));
  list.gauge("state_limit_bytes", "Memory available to sequences and snapshots, in bytes.",
             all(&WorkerFigures::limit_bytes));
  list.gauge("state_used_bytes", "Memory held by sequences and snapshots, in bytes.",
             all(&WorkerFigures::used_bytes));
  list.gauge("sequences", "Open sequences.", all(&WorkerFigures::sequences));
  list.gauge("sequences_most", "Most sequences that were open at once.", all(&WorkerFigures::most_sequences));
  list.gauge("snapshots", "Snapshots that the device holds.", all(&WorkerFigures::snapshots));
  list.gauge("requests_waiting", "Requests that wait for memory.", all(&WorkerFigures::waiting));
  list.counter("checkpoints_total", "Checkpoints taken.", all(&WorkerFigures::checkpoints));
  list.counter("checkpoints_skipped_total", "Checkpoints not taken because no memory was free.",
               all(&WorkerFigures::checkpoints_skipped));
  list.counter("checkpoints_spared_total", "Checkpoints not taken to save memory while it was filling.",
               all(&WorkerFigures::checkpoints_spared));
  list.counter("state_copied_bytes_total", "Bytes of state copied by snapshots and restores.",
               all(&WorkerFigures::copied_bytes));
  list.counter("unhealthy_states_total", "Computed states that had infinite or NaN values.",
               all(&WorkerFigures::unhealthy));
  list.counter("damaged_snapshots_total", "Snapshots whose checksum was wrong when they were restored.",
               all(&WorkerFigures::damaged));
  list.counter("preemptions_total", "Sequences preempted because an older one needed their memory.",
               all(&WorkerFigures::preemptions));
  list.counter("kv_compactions_total", "Prompts whose keys and values were compacted to a KV budget.",
               all(&WorkerFigures::compactions));
  list.counter("kv_compacted_full_bytes_total", "Bytes of compacted prompts before their compaction.",
               all(&WorkerFigures::compacted_full_bytes));
  list.counter("kv_compacted_kept_bytes_total", "Bytes of compacted prompts after their compaction.",
               all(&WorkerFigures::compacted_kept_bytes));
  list.counter("reclaims_total", "Times that memory was reclaimed from the cache.",
               all(&WorkerFigures::reclaims));
  list.counter("reclaims_ahead_total", "Times that memory was reclaimed from the cache ahead of need.",
               all(&WorkerFigures::reclaims_ahead));
  list.counter("admission_waits_total", "Requests that waited for memory before their admission.",
               all(&WorkerFigures::admission_waits));
  list.counter("admission_wait_seconds_total", "Time that requests waited for memory before their admission.",
               static_cast<double>(all(&WorkerFigures::admission_wait_ns)) * 1e-9);
  list.counter("device_faults_total", "Device steps that failed.", all(&WorkerFigures::faults));
  for (const auto& [name, figures] : devices) {
    const Listing::Labels of{{"device", name}};
    list.counter("device_steps_total", "Steps computed, by device.", read(figures->steps), of);
    list.gauge("device_state_limit_bytes",
               "Memory available to sequences and snapshots, in bytes, by device.",
               read(figures->limit_bytes), of);
    list.gauge("device_state_used_bytes", "Memory held by sequences and snapshots, in bytes, by device.",
               read(figures->used_bytes), of);
  }
}

void list_tier(protocol::Tier tier, const TierFigures& figures, Listing& list) {
  const auto with = [&](const char* key, std::string_view value) {
    return Listing::Labels{{"tier", std::string(name_of(tier))}, {key, std::string(value)}};
  };
  const Listing::Labels of{{"tier", std::string(name_of(tier))}};
  list.gauge("tier_off", "1 while writes to the cache tier are disabled after a failure, by tier.",
             read(figures.off), of);
  list.gauge("tier_bytes", "Bytes of snapshots in the cache tier, by tier.", read(figures.bytes), of);
  list.gauge("tier_budget_bytes", "Maximum bytes of snapshots in the cache tier, by tier.",
             read(figures.budget_bytes), of);
  list.gauge("tier_waiting", "Snapshots waiting to be written to the cache tier, by tier.",
             read(figures.waiting), of);
  list.counter("tier_fetches_total", "Prompts looked up in the cache tier, by tier.", read(figures.fetches),
               of);
  list.counter("tier_loaded_total", "Snapshots read from the cache tier, by tier.", read(figures.loaded), of);
  list.counter("tier_loaded_tokens_total", "Tokens of the snapshots read from the cache tier, by tier.",
               read(figures.loaded_tokens), of);
  list.counter("tier_loaded_bytes_total", "Bytes of the snapshots read from the cache tier, by tier.",
               read(figures.loaded_bytes), of);
  list.counter("tier_load_seconds_total", "Time spent reading from the cache tier, by tier.",
               static_cast<double>(read(figures.load_ns)) * 1e-9, of);
  list.counter("tier_slower_total",
               "Snapshots not read from the cache tier because computing was faster, by tier.",
               read(figures.slower), of);
  list.counter("tier_stored_total", "Snapshots written to the cache tier, by tier.", read(figures.stored),
               of);
  list.counter("tier_stored_bytes_total", "Bytes written to the cache tier, by tier.",
               read(figures.stored_bytes), of);
  list.counter(
      "tier_overtaken_total",
      "Snapshots not written to the cache tier because they were evicted first or too many waited, by tier.",
      read(figures.overtaken), of);
  list.counter("tier_no_room_total", "Snapshots not written because the cache tier had no space, by tier.",
               read(figures.no_room), of);
  list.counter("tier_evicted_total", "Snapshots evicted from the cache tier, by tier.", read(figures.evicted),
               of);
  list.counter("tier_expired_total",
               "Snapshots removed from the cache tier because their TTL ended, by tier.",
               read(figures.expired), of);
  list.counter("tier_failures_total", "Failed writes to the cache tier, by tier.", read(figures.failures),
               of);
  for (std::size_t i = 0; i < TierFigures::kRefusals; ++i) {
    const auto reason = name_of(static_cast<protocol::snapshots::Refusal>(i));
    list.counter("tier_refused_total",
                 "Snapshots of the cache tier that could not be used, by tier and reason.",
                 read(figures.refused[i]), with("reason", reason));
  }
}

void list_registry(const std::string& model, const RegistryFigures& registry, Listing& list) {
  const auto with = [&](const char* key, std::string_view value) {
    return Listing::Labels{{"model", model}, {key, std::string(value)}};
  };
  const Listing::Labels of{{"model", model}};
  list.counter("cache_lookups_total", "Prompts looked up in the prefix cache.", read(registry.lookups), of);
  list.counter("cache_prompt_tokens_total", "Tokens of the prompts looked up in the prefix cache.",
               read(registry.prompt_tokens), of);
  list.counter("cache_restored_tokens_total",
               "Prompt tokens restored from the prefix cache instead of computed.",
               read(registry.restored_tokens), of);
  for (std::size_t i = 0; i < protocol::kMissReasons; ++i) {
    list.counter("cache_lookup_results_total", "Lookups, by the reason why no more was restored.",
                 read(registry.by_reason[i]), with("reason", name_of(static_cast<protocol::MissReason>(i))));
  }
  for (std::size_t i = 0; i < protocol::kMissReasons; ++i) {
    list.counter(
        "cache_lost_tokens_total", "Prompt tokens computed before that could not be restored, by reason.",
        read(registry.lost_tokens[i]), with("reason", name_of(static_cast<protocol::MissReason>(i))));
  }
  for (std::size_t i = 0; i < protocol::kOrigins; ++i) {
    const auto origin = with("origin", name_of(static_cast<protocol::Origin>(i)));
    list.counter("cache_hits_total", "Restored prompts, by the origin of the checkpoint.",
                 read(registry.hits_by_origin[i]), origin);
    list.counter("cache_inserts_total", "Snapshots inserted into the prefix cache, by origin.",
                 read(registry.inserts_by_origin[i]), origin);
  }
  for (std::size_t i = 1; i < protocol::kTiers; ++i) {
    const auto tier = with("tier", name_of(static_cast<protocol::Tier>(i)));
    list.counter("cache_brought_total", "Prompts restored from a cache tier outside the device, by tier.",
                 read(registry.brought[i]), tier);
    list.counter("cache_brought_tokens_total",
                 "Prompt tokens restored from a cache tier outside the device, by tier.",
                 read(registry.brought_tokens[i]), tier);
  }
  for (const auto& [result, figure] :
       {std::pair{"exact", &registry.exact}, {"partial", &registry.partial}, {"miss", &registry.missed}}) {
    list.counter("cache_requests_total", "Requests, by how much of the prompt was restored.", read(*figure),
                 with("result", result));
  }
  list.counter("cache_capped_total", "Snapshots evicted because their conversation had too many.",
               read(registry.capped), of);
  list.counter("cache_thrashed_total", "Snapshots that were made again soon after their eviction.",
               read(registry.thrashed), of);
  list.gauge("cache_index_bytes", "Memory of the prefix cache's index, in bytes.", read(registry.index_bytes),
             of);
  list.counter("cache_evicted_total", "Snapshots evicted from the prefix cache.", read(registry.evicted), of);
  list.counter("cache_expired_total", "Snapshots removed from the prefix cache because their TTL ended.",
               read(registry.expired), of);
  list.counter("cache_superseded_total", "Snapshots replaced by those of a later turn.",
               read(registry.superseded), of);
  list.counter("cache_self_evicted_total",
               "Snapshots dropped at once because they exceed the cache's budget.",
               read(registry.self_evicted), of);
  list.counter("cache_followers_total", "Requests that waited while another one computed the same prefix.",
               read(registry.followers), of);
  list.gauge("cache_entries", "Snapshots in the prefix cache.", read(registry.entries), of);
  list.gauge("cache_leases", "Uses of snapshots by running requests.", read(registry.leases), of);
  list.gauge("cache_pinned", "Pinned snapshots in the prefix cache.", read(registry.pinned), of);
  list.gauge("cache_flights", "Prompts being computed that later requests can wait for.",
             read(registry.flights), of);
  list.gauge("cache_path_tokens", "Tokens in the prefix cache's index.", read(registry.path_tokens), of);
  list.gauge("cache_namespaces", "Namespaces in the prefix cache's index.", read(registry.namespaces), of);
  list.gauge("cache_bytes", "Memory held by snapshots in bytes; shared pages count once.",
             read(registry.adopted_bytes), of);
  list.gauge("cache_budget_bytes", "Maximum memory of snapshots, in bytes.", read(registry.budget_bytes), of);
  list.counter("cache_verified_total", "Restored prompts that were recomputed and compared.",
               read(registry.verified), of);
  list.counter("cache_mismatches_total", "Restored prompts whose recomputation gave a different result.",
               read(registry.mismatches), of);
  list.counter("cache_unverified_total",
               "Restored prompts that were chosen for recomputation and could not be recomputed.",
               read(registry.unverified), of);
}

}  // namespace

std::vector<Figure> Engine::figures() const {
  Listing list;
  list.gauge("requests_running", "Requests accepted whose answer has not ended.", parts_->running->now());
  list_devices(parts_->board->all(), list);
  for (const auto& [actor, log] : {std::pair{"texts", &parts_->restarts->texts},
                                   {"registry", &parts_->restarts->registries},
                                   {"device", &parts_->restarts->devices},
                                   {"supervisor", &parts_->restarts->supervisors}}) {
    list.counter("actor_restarts_total", "Restarts of failed actors, by actor.", log->total(),
                 {{"actor", actor}});
  }
  for (const Parts::LowerTier& lower : parts_->tiers) list_tier(lower.tier, *lower.figures, list);
  for (const ModelDirectory::Entry& entry : parts_->directory->all()) {
    list.gauge("model_ready", "1 while the model can be used, by model.", entry.model ? 1 : 0,
               {{"model", entry.card.id}});
    if (entry.model && entry.model->registry)
      list_registry(entry.card.id, *entry.model->registry_figures, list);
  }
  return list.take();
}

}  // namespace reprise::actors
