// What everyone may read of a registry, and what a trace shows of it.

#include "actors/cache/prefix_registry.h"
#include "runtime/names.h"
#include "traces/trace.h"

namespace reprise::actors {

void PrefixRegistry::plot(const PrefixCacheStats& stats) const {
  const std::string model = "registry " + options_.model + ": ";
  const auto show = [&](const char* what, double value) {
    traces::plot(runtime::intern_name(model + what, what), value);
  };
  constexpr double kMb = 1 << 20;
  if (stats.prompt_tokens > 0) {
    show("tokens restored, %",
         100.0 * static_cast<double>(stats.restored_tokens) / static_cast<double>(stats.prompt_tokens));
  }
  show("entries", static_cast<double>(stats.entries));
  show("prompts in flight", static_cast<double>(stats.flights));
  show("snapshots, MB", static_cast<double>(adopted_bytes_) / kMb);
  show("budget, MB", static_cast<double>(options_.budget_bytes) / kMb);
}

void PrefixRegistry::publish() {
  const PrefixCacheStats stats = cache_.stats();
  RegistryFigures& figures = *options_.figures;
  const auto set = [](RegistryFigures::Figure& figure, std::uint64_t value) {
    figure.store(value, std::memory_order_relaxed);
  };
  set(figures.lookups, stats.lookups);
  set(figures.prompt_tokens, stats.prompt_tokens);
  set(figures.restored_tokens, stats.restored_tokens + brought_tokens_);
  for (std::size_t i = 0; i < protocol::kMissReasons; ++i) {
    set(figures.by_reason[i], by_reason_[i]);
    set(figures.lost_tokens[i], lost_tokens_[i]);
  }
  for (std::size_t i = 0; i < protocol::kOrigins; ++i) {
    set(figures.hits_by_origin[i], stats.hits_by_origin[i]);
    set(figures.inserts_by_origin[i], stats.inserts_by_origin[i]);
  }
  set(figures.evicted, stats.evicted);
  set(figures.expired, stats.expired);
  set(figures.superseded, stats.superseded);
  set(figures.capped, stats.capped);
  set(figures.thrashed, stats.thrashed);
  set(figures.index_bytes, stats.index_bytes);
  set(figures.entries, stats.entries);
  set(figures.leases, stats.leases);
  set(figures.pinned, stats.pinned);
  set(figures.flights, stats.flights);
  set(figures.path_tokens, stats.path_tokens);
  set(figures.namespaces, stats.namespaces);
  set(figures.adopted_bytes, adopted_bytes_);
  if (traces::on()) plot(stats);
  const std::optional<EntryInfo> oldest = cache_.least_valuable(now(), true);
  figures.oldest_use_ns.store(oldest ? oldest->last_use.count() : INT64_MAX, std::memory_order_relaxed);
}

}  // namespace reprise::actors
