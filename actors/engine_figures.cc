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
  list.counter("steps_total", "Steps that the device has computed.", all(&WorkerFigures::steps));
  list.counter("prefill_tokens_total", "Prompt tokens computed.", all(&WorkerFigures::prefill_tokens));
  list.counter("decode_tokens_total", "Tokens decoded.", all(&WorkerFigures::decode_tokens));
  list.gauge("state_limit_bytes", "Memory for sequences and snapshots.", all(&WorkerFigures::limit_bytes));
  list.gauge("state_used_bytes", "Memory held by sequences and snapshots.", all(&WorkerFigures::used_bytes));
  list.gauge("sequences", "Sequences that are open.", all(&WorkerFigures::sequences));
  list.gauge("sequences_most", "Sequences that were open at once, at most.",
             all(&WorkerFigures::most_sequences));
  list.gauge("snapshots", "Snapshots that the device holds.", all(&WorkerFigures::snapshots));
  list.gauge("requests_waiting", "Requests that wait for memory.", all(&WorkerFigures::waiting));
  list.counter("checkpoints_total", "Checkpoints taken.", all(&WorkerFigures::checkpoints));
  list.counter("checkpoints_skipped_total", "Checkpoints for which there was no memory.",
               all(&WorkerFigures::checkpoints_skipped));
  list.counter("checkpoints_spared_total", "Checkpoints left out while memory was filling.",
               all(&WorkerFigures::checkpoints_spared));
  list.counter("state_copied_bytes_total", "Bytes of state copied by snapshots and restores.",
               all(&WorkerFigures::copied_bytes));
  list.counter("unhealthy_states_total", "States that were not finite.", all(&WorkerFigures::unhealthy));
  list.counter("damaged_snapshots_total", "Snapshots that failed their check.", all(&WorkerFigures::damaged));
  list.counter("preemptions_total", "Sequences that gave way to older ones.",
               all(&WorkerFigures::preemptions));
  list.counter("kv_compactions_total", "Prompts whose keys and values were cut to a budget.",
               all(&WorkerFigures::compactions));
  list.counter("kv_compacted_full_bytes_total", "Bytes that those prompts took before.",
               all(&WorkerFigures::compacted_full_bytes));
  list.counter("kv_compacted_kept_bytes_total", "Bytes that they took after.",
               all(&WorkerFigures::compacted_kept_bytes));
  list.counter("kv_compacted_reuses_total", "Prompts that went on from what an earlier turn had cut.",
               all(&WorkerFigures::compacted_restores));
  list.counter("reclaims_total", "Times that memory was asked back from the cache.",
               all(&WorkerFigures::reclaims));
  list.counter("reclaims_ahead_total", "Times that memory was asked back before anybody needed it.",
               all(&WorkerFigures::reclaims_ahead));
  list.counter("admission_waits_total", "Requests that came when there was no room for them.",
               all(&WorkerFigures::admission_waits));
  list.counter("admission_wait_seconds_total", "Time until there was.",
               static_cast<double>(all(&WorkerFigures::admission_wait_ns)) * 1e-9);
  list.counter("device_faults_total", "Steps that failed.", all(&WorkerFigures::faults));
  for (const auto& [name, figures] : devices) {
    const Listing::Labels of{{"device", name}};
    list.counter("device_steps_total", "Steps computed, by device.", read(figures->steps), of);
    list.gauge("device_state_limit_bytes", "Memory for sequences and snapshots, by device.",
               read(figures->limit_bytes), of);
    list.gauge("device_state_used_bytes", "Memory held by sequences and snapshots, by device.",
               read(figures->used_bytes), of);
  }
}

void list_tier(protocol::Tier tier, const TierFigures& figures, Listing& list) {
  const auto with = [&](const char* key, std::string_view value) {
    return Listing::Labels{{"tier", std::string(name_of(tier))}, {key, std::string(value)}};
  };
  const Listing::Labels of{{"tier", std::string(name_of(tier))}};
  list.gauge("tier_off", "Whether the tier takes nothing at present.", read(figures.off), of);
  list.gauge("tier_bytes", "Bytes of snapshots there.", read(figures.bytes), of);
  list.gauge("tier_budget_bytes", "Bytes that may be there.", read(figures.budget_bytes), of);
  list.gauge("tier_waiting", "Snapshots that wait to be written.", read(figures.waiting), of);
  list.counter("tier_fetches_total", "Prompts that were looked for there.", read(figures.fetches), of);
  list.counter("tier_loaded_total", "States read.", read(figures.loaded), of);
  list.counter("tier_loaded_tokens_total", "Tokens of these states.", read(figures.loaded_tokens), of);
  list.counter("tier_loaded_bytes_total", "Bytes of these states.", read(figures.loaded_bytes), of);
  list.counter("tier_load_seconds_total", "Time that reading took.",
               static_cast<double>(read(figures.load_ns)) * 1e-9, of);
  list.counter("tier_slower_total", "States left because computing is quicker.", read(figures.slower), of);
  list.counter("tier_stored_total", "Snapshots written.", read(figures.stored), of);
  list.counter("tier_stored_bytes_total", "Bytes written.", read(figures.stored_bytes), of);
  list.counter("tier_overtaken_total", "Snapshots that went before they were written.",
               read(figures.overtaken), of);
  list.counter("tier_no_room_total", "Snapshots for which there was no room.", read(figures.no_room), of);
  list.counter("tier_evicted_total", "Snapshots that gave way.", read(figures.evicted), of);
  list.counter("tier_expired_total", "Snapshots that outlived their time.", read(figures.expired), of);
  list.counter("tier_failures_total", "Writes that failed.", read(figures.failures), of);
  for (std::size_t i = 0; i < TierFigures::kRefusals; ++i) {
    const auto reason = name_of(static_cast<protocol::snapshots::Refusal>(i));
    list.counter("tier_refused_total", "Snapshots that could not be used.", read(figures.refused[i]),
                 with("reason", reason));
  }
}

void list_registry(const std::string& model, const RegistryFigures& registry, Listing& list) {
  const auto with = [&](const char* key, std::string_view value) {
    return Listing::Labels{{"model", model}, {key, std::string(value)}};
  };
  const Listing::Labels of{{"model", model}};
  list.counter("cache_lookups_total", "Prompts looked up.", read(registry.lookups), of);
  list.counter("cache_prompt_tokens_total", "Tokens of these prompts.", read(registry.prompt_tokens), of);
  list.counter("cache_restored_tokens_total", "Tokens restored instead of computed.",
               read(registry.restored_tokens), of);
  for (std::size_t i = 0; i < protocol::kMissReasons; ++i) {
    list.counter("cache_lookup_results_total", "Lookups by what kept them from restoring more.",
                 read(registry.by_reason[i]), with("reason", name_of(static_cast<protocol::MissReason>(i))));
  }
  for (std::size_t i = 0; i < protocol::kMissReasons; ++i) {
    list.counter("cache_lost_tokens_total", "Tokens that were known and not restored, by reason.",
                 read(registry.lost_tokens[i]),
                 with("reason", name_of(static_cast<protocol::MissReason>(i))));
  }
  for (std::size_t i = 0; i < protocol::kOrigins; ++i) {
    const auto origin = with("origin", name_of(static_cast<protocol::Origin>(i)));
    list.counter("cache_hits_total", "Restores by the origin of their checkpoint.",
                 read(registry.hits_by_origin[i]), origin);
    list.counter("cache_inserts_total", "Entries inserted, by origin.", read(registry.inserts_by_origin[i]),
                 origin);
  }
  for (std::size_t i = 1; i < protocol::kTiers; ++i) {
    const auto tier = with("tier", name_of(static_cast<protocol::Tier>(i)));
    list.counter("cache_brought_total", "Restores from a tier below the device.", read(registry.brought[i]),
                 tier);
    list.counter("cache_brought_tokens_total", "Their tokens.", read(registry.brought_tokens[i]), tier);
  }
  for (const auto& [result, figure] :
       {std::pair{"exact", &registry.exact}, {"partial", &registry.partial}, {"miss", &registry.missed}}) {
    list.counter("cache_requests_total", "Requests by how much of their prompt was restored.", read(*figure),
                 with("result", result));
  }
  list.counter("cache_capped_total", "Entries that gave way to others of their conversation.",
               read(registry.capped), of);
  list.counter("cache_thrashed_total", "Entries made again soon after they were evicted.",
               read(registry.thrashed), of);
  list.gauge("cache_index_bytes", "Memory of the tree of prompts and the list of entries.",
             read(registry.index_bytes), of);
  list.counter("cache_evicted_total", "Entries that gave way.", read(registry.evicted), of);
  list.counter("cache_expired_total", "Entries that outlived their time.", read(registry.expired), of);
  list.counter("cache_superseded_total", "Entries that a later turn replaced.", read(registry.superseded),
               of);
  list.counter("cache_self_evicted_total", "Entries that did not fit the budget.",
               read(registry.self_evicted), of);
  list.counter("cache_followers_total", "Requests that waited for another's prefix.",
               read(registry.followers), of);
  list.gauge("cache_entries", "Entries now.", read(registry.entries), of);
  list.gauge("cache_leases", "Leases now.", read(registry.leases), of);
  list.gauge("cache_pinned", "Pinned entries now.", read(registry.pinned), of);
  list.gauge("cache_flights", "Prompts being computed now.", read(registry.flights), of);
  list.gauge("cache_path_tokens", "Tokens in the tree.", read(registry.path_tokens), of);
  list.gauge("cache_namespaces", "Namespaces in the tree.", read(registry.namespaces), of);
  list.gauge("cache_bytes", "Memory held by entries; shared pages once.", read(registry.adopted_bytes), of);
  list.gauge("cache_budget_bytes", "Memory that entries may hold.", read(registry.budget_bytes), of);
  list.counter("cache_verified_total", "Hits recomputed cold.", read(registry.verified), of);
  list.counter("cache_mismatches_total", "Of these, how many differed.", read(registry.mismatches), of);
  list.counter("cache_unverified_total", "Hits that were to be recomputed and could not be.",
               read(registry.unverified), of);
}

}  // namespace

std::vector<Figure> Engine::figures() const {
  Listing list;
  list.gauge("requests_running", "Requests that have not had their last event.", parts_->running->now());
  list_devices(parts_->board->all(), list);
  for (const auto& [actor, log] : {std::pair{"texts", &parts_->restarts->texts},
                                   {"registry", &parts_->restarts->registries},
                                   {"device", &parts_->restarts->devices},
                                   {"supervisor", &parts_->restarts->supervisors}}) {
    list.counter("actor_restarts_total", "Times that an actor failed and began anew.", log->total(),
                 {{"actor", actor}});
  }
  for (const Parts::LowerTier& lower : parts_->tiers) list_tier(lower.tier, *lower.figures, list);
  for (const ModelDirectory::Entry& entry : parts_->directory->all()) {
    list.gauge("model_ready", "Whether the model can be used.", entry.model ? 1 : 0,
               {{"model", entry.card.id}});
    if (entry.model && entry.model->registry)
      list_registry(entry.card.id, *entry.model->registry_figures, list);
  }
  return list.take();
}

}  // namespace reprise::actors
