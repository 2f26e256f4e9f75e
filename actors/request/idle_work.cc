#include "actors/request/idle_work.h"

#include <algorithm>

#include "actors/cache/registry_figures.h"
#include "actors/request/text_pool.h"

namespace reprise::actors {

using runtime::Task;

// The history seldom equals the computed tokens: templates strip reasoning, and the reply is tokenized again.
// So it is rendered as the next turn will render it.
Task<void> IdleWork::prefill_history() {
  const ServedModel& model = *request_.job.model;
  const auto* chat = std::get_if<protocol::ChatPrompt>(&request_.job.request->prompt);
  const protocol::ChatFormatPtr& format = model.card.chat;
  if (chat == nullptr || format == nullptr || !model.limits.prefill_history || !request_.main->writes_cache ||
      reply_run_.choices().size() != 1) {
    co_return;
  }
  const ReplyRun::Choice& choice = *reply_run_.choices().front();
  Json said = choice.turn ? choice.turn->message : reply_run_.message_of(choice);
  TokenList history;
  if (text_bytes(request_.job.request->prompt) <= kShortText) {
    history = format->history_after(*chat, said, request_.prompt.turns, choice.turn);
  } else {
    auto asked = request_.job.texts->ask(HistoryJob{{.request = request_.job.request,
                                                     .model = request_.job.model,
                                                     .reply = said,
                                                     .turns = request_.prompt.turns,
                                                     .reply_turn = choice.turn}},
                                         request_.lost.token());
    runtime::Result<HistoryJob::Reply> answered = co_await asked;
    if (!answered.ok() || !std::holds_alternative<TokenList>(*answered)) co_return;
    history = std::get<TokenList>(std::move(*answered));
  }
  const bool has_calls = said.find("tool_calls") != nullptr;
  Task<void> prefilling =
      prefill_idle(std::move(history), has_calls ? protocol::Origin::kHistory : protocol::Origin::kLastUser);
  co_await prefilling;
}

bool IdleWork::left_off_in_reply() const {
  return request_.client_gone && request_.lost_why.empty() && reply_run_.choices().size() == 1 &&
         !reply_run_.choices().front()->finished;
}

Task<void> IdleWork::prefill_reply() {
  const ServedModel& model = *request_.job.model;
  const std::uint32_t every = model.checkpoints.reply_every;
  if (model.arch.decode_is_canonical || every == 0 || !model.limits.prefill_history || !request_.main ||
      !request_.main->writes_cache || reply_run_.choices().size() != 1) {
    co_return;
  }
  const TokenList& reply = reply_run_.choices().front()->tokens;
  if (reply.size() < every) co_return;
  TokenList tokens = *request_.main->tokens;
  tokens.insert(tokens.end(), reply.begin(), reply.end());
  Task<void> prefilling = prefill_idle(std::move(tokens), protocol::Origin::kReply);
  co_await prefilling;
}

Task<void> IdleWork::prefill_idle(TokenList tokens, protocol::Origin at_end) {
  const ServedModel& model = *request_.job.model;
  tokens.resize(tokens.size() / model.arch.grid * model.arch.grid);
  const auto end = static_cast<std::uint32_t>(tokens.size());
  if (end < 2 || !model.checkpoints.plans({.origin = at_end, .at = end, .is_end = true})) co_return;

  Computation computation;
  computation.tokens = share_tokens(std::move(tokens));
  computation.reads_cache = computation.writes_cache = true;
  computation.request = request_.main->request;
  computation.conversation = request_.main->conversation;
  computation.keep = request_.main->keep;
  request_.trace().mark("prefills_history", {{"tokens", end}});
  Task<Failure> entering = prompt_run_.enter(computation, protocol::Priority::kIdle);
  if (Failure failure = co_await entering) co_return;
  // The whole prompt may be restored: no logits are needed after it.
  if (computation.announced->known >= end && computation.announced->restorable + 1 >= end) co_return;
  Task<Failure> restoring = prompt_run_.restore(computation);
  if (Failure failure = co_await restoring) co_return;
  if (computation.report.restored_tokens >= end) co_return;
  computation.plan = reply_positions(computation.report.restored_tokens, end, model.checkpoints);
  if (const std::uint32_t call = reply_run_.call_opener_at();
      call > computation.report.restored_tokens && call < end &&
      model.checkpoints.plans({.origin = protocol::Origin::kCall, .at = call})) {
    const auto after =
        std::upper_bound(computation.plan.begin(), computation.plan.end(), call,
                         [](std::uint32_t at, const PlannedCheckpoint& one) { return at < one.at; });
    if (after == computation.plan.begin() || std::prev(after)->at != call)
      computation.plan.insert(after, {.at = call, .origin = protocol::Origin::kCall});
  }
  computation.plan.push_back({.at = end, .origin = at_end});
  Task<Failure> prefilling = prompt_run_.prefill(computation, false);
  if (Failure failure = co_await prefilling) co_return;
  Task<void> settling = prompt_run_.all_settled();
  co_await settling;
}

// Compares the digest of a cold prefill with that of the restored one; on a mismatch the cache entry is
// dropped.
Task<bool> IdleWork::verify(protocol::Priority priority) {
  const ServedModel& model = *request_.job.model;
  RegistryFigures& figures = *model.registry_figures;
  Computation cold;
  cold.tokens = request_.prompt.tokens;
  Task<Failure> entering = prompt_run_.enter(cold, priority);
  Failure failure = co_await entering;
  if (!failure) {
    Task<Failure> prefilling = prompt_run_.prefill(cold, true);
    failure = co_await prefilling;
  }
  if (failure) {
    figures.unverified.fetch_add(1, std::memory_order_relaxed);
    co_return true;
  }
  figures.verified.fetch_add(1, std::memory_order_relaxed);
  if (cold.digest == request_.main->digest) co_return true;
  figures.mismatches.fetch_add(1, std::memory_order_relaxed);
  const protocol::CacheReport& report = request_.main->report;
  if (model.warn) {
    model.warn("a restored snapshot differs from a cold run: " + std::to_string(report.restored_tokens) +
               " of " + std::to_string(report.prompt_tokens) +
               " tokens restored, from a checkpoint of origin " +
               std::string(protocol::name_of(*report.origin)) + ", model fingerprint " +
               std::to_string(model.arch.fingerprint) + "; the snapshot was dropped");
  }
  model.registry.tell(protocol::DropEntry{.name_space = request_.job.name_space,
                                          .tokens = request_.prompt.tokens,
                                          .length = report.restored_tokens});
  co_return false;
}

}  // namespace reprise::actors
