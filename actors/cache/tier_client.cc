#include "actors/cache/tier_client.h"

#include <algorithm>
#include <utility>

#include "protocol/checkpoint_rules.h"
#include "runtime/actor.h"

namespace reprise::actors {

using protocol::CheckpointRules;
using protocol::FetchState;
using runtime::Result;
using runtime::Task;

std::optional<FetchState> TierClient::request_for(const std::string& name_space, const SharedTokens& prompt,
                                                  std::uint32_t max_tokens, std::uint32_t restorable) const {
  if (!is_there() || prompt->empty()) return std::nullopt;
  const std::uint32_t at_most =
      std::min(static_cast<std::uint32_t>(prompt->size() - 1), max_tokens) / grid_ * grid_;
  if (at_most < restorable + CheckpointRules::kMinStored) return std::nullopt;
  return FetchState{.kind = model_.kind,
                    .name_space = name_space,
                    .prompt = prompt,
                    .more_than = restorable,
                    .at_most = at_most,
                    .seconds_per_token = model_.seconds_per_token ? model_.seconds_per_token() : 0};
}

runtime::Duration TierClient::patience(const FetchState& request) {
  const std::chrono::duration<double> computing((request.at_most - request.more_than) *
                                                request.seconds_per_token * 2);
  if (request.seconds_per_token <= 0 || computing >= protocol::kMaxFetchTime) return protocol::kMaxFetchTime;
  return std::max<runtime::Duration>(std::chrono::duration_cast<runtime::Duration>(computing), kMinPatience);
}

Task<std::optional<protocol::Fetched>> TierClient::fetch(FetchState request) {
  const runtime::Duration time = patience(request);
  auto asked = tier_.ask(std::move(request), runtime::deadline_after(time));
  Result<protocol::Fetched> fetched = co_await asked;
  std::optional<protocol::Fetched> answer;
  if (fetched.ok()) {
    answer = std::move(*fetched);
  } else if (warn_) {
    warn_("cache tier: no answer to a lookup: " + fetched.error().describe());
  }
  co_return answer;
}

void TierClient::offer(const protocol::CheckpointTaken& taken, protocol::Origin origin) {
  const CheckpointRules::Store stores = CheckpointRules::stores(origin, taken.at);
  if (!is_there() || stores == CheckpointRules::Store::kNever) return;
  protocol::StoreState store{.kind = model_.kind,
                             .name_space = taken.plan->name_space,
                             .tokens = taken.tokens,
                             .at = taken.at,
                             .origin = origin,
                             .snapshot = taken.snapshot->snapshot,
                             .worker = model_.worker};
  if (stores == CheckpointRules::Store::kWhenIdle) {
    store.device_is_idle = model_.device_is_idle ? model_.device_is_idle : [] { return true; };
  } else {
    store.retention = taken.plan->disk_retention;
  }
  tier_.tell(std::move(store));
}

void TierClient::forget(const protocol::DropEntry& wrong) {
  if (!is_there()) return;
  tier_.tell(protocol::ForgetStates{
      .kind = model_.kind, .name_space = wrong.name_space, .tokens = wrong.tokens, .length = wrong.length});
}

}  // namespace reprise::actors
