#include "actors/request/reply_run.h"

#include <algorithm>
#include <chrono>

#include "actors/request/text_pool.h"
#include "base/token.h"

namespace reprise::actors {

using protocol::Error;
using protocol::ErrorKind;
using protocol::FinishReason;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::uint32_t kTokenWindow = 16;  // tokens that the device may be ahead of the request
constexpr std::chrono::minutes kSnapshotDeadline{10};

}  // namespace

std::optional<protocol::Decode> ReplyRun::begin() {
  if (request_.job.request->embedding) return std::nullopt;
  for (std::uint32_t index = 0; index < request_.job.request->n; ++index) {
    choices_.push_back(std::make_unique<Choice>());
    choices_.back()->index = index;
  }
  if (choices_.size() != 1) return std::nullopt;
  return start_decoding(*choices_.front(), *request_.main->sequence);
}

Task<RequestFailure> ReplyRun::decode() {
  if (choices_.size() > 1) {
    Task<Failure> keeping = keep_prompt();
    if (Failure failure = co_await keeping) co_return failure;
    additional_ = static_cast<std::uint32_t>(choices_.size() - 1);
    for (std::uint32_t i = 0; i < additional_; ++i) request_.launch(decode_on_additional());
  }
  Task<Failure> decoding = decode_on_first();
  Failure failure = co_await decoding;
  if (failure) request_.break_off();
  while (additional_ > 0) {
    auto waiting = additional_ended_.wait();
    const Result<void> woken = co_await waiting;
    static_cast<void>(woken);
  }
  if (additional_failed_) failure = std::move(additional_failed_);
  if (failure) co_return failure;
  request_.usage.timing.decode_ms = request_.since_arrival_ms() - request_.usage.timing.first_token_ms;
  Task<void> settling = prompt_run_.all_settled();
  co_await settling;
  if (request_.job.request->cache.pin > std::chrono::seconds(0) && request_.main->flight) {
    Task<void> pinning = prompt_run_.pin_prompt();
    co_await pinning;
  }
  co_return std::nullopt;
}

// Takes the raw snapshot from which all choices start. Its memory was reserved at admission.
Task<RequestFailure> ReplyRun::keep_prompt() {
  auto asked = request_.job.model->worker.ask(
      protocol::SnapshotKv{.sequence = request_.main->sequence->id, .kind = protocol::SnapshotKv::Kind::kRaw},
      request_.job.model->limits.max_wait, request_.lost.token());
  const protocol::JobResult<protocol::SnapshotTaken> taken = protocol::answer_of(co_await asked);
  if (!taken.ok()) co_return request_.failure_of(taken.error());
  kept_prompt_ = taken->snapshot;
  co_return std::nullopt;
}

Task<ReplyRun::Restoring> ReplyRun::restore_prompt(OpenedSequence& sequence) {
  auto asked =
      request_.job.model->worker.ask(protocol::RestoreKv{.sequence = sequence.id,
                                                         .snapshot = kept_prompt_,
                                                         .at = request_.usage.prompt_tokens,
                                                         .token_hash = token_hash(*request_.prompt.tokens)},
                                     request_.job.model->limits.max_wait, request_.lost.token());
  Restoring restored = protocol::answer_of(co_await asked);
  co_return restored;
}

// Decodes choices on an additional sequence, reopened for each choice, so that other requests are admitted in
// between. The first sequence decodes the rest.
Task<void> ReplyRun::decode_on_additional() {
  const ServedModel& model = *request_.job.model;
  bool goes_on = true;
  const std::uint32_t held = request_.main->kept ? request_.main->kept->tokens : request_.usage.prompt_tokens;
  while (goes_on && choices_begun_ < choices_.size() && !request_.lost.canceled()) {
    OpenedSequence sequence(model);
    auto opening =
        model.worker.ask(protocol::OpenSequence{.arch = model.arch.arch,
                                                .adapter = request_.adapter(),
                                                .ticket = sequence.ticket(),
                                                .prompt_tokens = held,
                                                .max_tokens = request_.prompt.max_tokens,
                                                .shared_tokens = held,
                                                .priority = request_.job.request->origin.priority,
                                                .tenant = request_.job.tenant,
                                                .group = request_.job.group,
                                                .tenant_share = request_.job.request->origin.tenant_share},
                         model.limits.max_wait, request_.all_begun.token());
    const protocol::JobResult<protocol::Opened> opened = protocol::answer_of(co_await opening);
    if (!opened.ok() || request_.all_begun.canceled()) break;
    sequence.id = opened->sequence;
    Task<Restoring> restoring = restore_prompt(sequence);
    const Restoring restored = co_await restoring;
    if (!restored.ok() || choices_begun_ == choices_.size()) break;
    Task<Failure> decoding = decode_next(sequence);
    Failure failure = co_await decoding;
    goes_on = !failure;
    if (failure && !request_.lost.canceled()) {  // otherwise the failure is a consequence
      additional_failed_ = std::move(failure);
      request_.break_off();
    }
  }
  --additional_;
  additional_ended_.signal();
}

// Decodes one choice after the other until all have begun.
Task<RequestFailure> ReplyRun::decode_on_first() {
  OpenedSequence& sequence = *request_.main->sequence;
  for (bool holds_prompt = true; choices_begun_ < choices_.size(); holds_prompt = false) {
    if (!holds_prompt) {
      Task<Restoring> restoring = restore_prompt(sequence);
      const Restoring restored = co_await restoring;
      if (choices_begun_ == choices_.size()) break;
      if (!restored.ok()) co_return request_.failure_of(restored.error());
    }
    Task<Failure> decoding = decode_next(sequence);
    if (Failure failure = co_await decoding) co_return failure;
  }
  co_return std::nullopt;
}

// Decodes the next choice to its end, on a sequence that holds the prompt.
Task<RequestFailure> ReplyRun::decode_next(OpenedSequence& sequence) {
  Choice& choice = *choices_[choices_begun_++];
  if (choices_begun_ == choices_.size()) {
    request_.all_begun.cancel();
    if (kept_prompt_) request_.job.model->worker.tell(protocol::DropKvSnapshot{.snapshot = kept_prompt_});
  }
  if (choices_.size() > 1) request_.job.model->worker.tell(start_decoding(choice, sequence));
  if ((choice.constraint || choice.budget) && !allow_next(choice)) {
    Task<Failure> making = give_made_mask(choice);
    if (Failure failure = co_await making) co_return failure;
  }
  while (!choice.finished) {
    Task<Failure> taking = next_token(choice);
    if (Failure failure = co_await taking) co_return failure;
  }
  keep_turn(choice);
  if (choice.budget && choice.budget->ended_by() != protocol::ReasoningEnd::kModel) {
    request_.usage.reasoning_ended_by = choice.budget->ended_by();
  }
  Task<void> keeping = keep_turn_end(choice);
  co_await keeping;
  co_return std::nullopt;
}

Json ReplyRun::message_of(const Choice& choice) const {
  const std::string& id = request_.job.request->origin.reply_id.empty()
                              ? request_.job.request->origin.id
                              : request_.job.request->origin.reply_id;
  return request_.job.model->card.chat->message_of(
      std::get<protocol::ChatPrompt>(request_.job.request->prompt), choice.reply, request_.prompt.tail,
      protocol::turn_id(id, choice.index));
}

std::uint32_t ReplyRun::call_opener_at() const {
  if (choices_.empty() || !choices_.front()->turn) return 0;
  const std::optional<TokenId> opener = request_.job.model->card.chat->call_opener();
  const TokenList& reply = choices_.front()->tokens;
  const auto at = opener ? std::find(reply.begin(), reply.end(), *opener) : reply.end();
  if (at == reply.end()) return 0;
  const std::size_t tokens = request_.main->tokens->size() + static_cast<std::size_t>(at - reply.begin());
  return static_cast<std::uint32_t>(tokens / request_.job.model->arch.grid * request_.job.model->arch.grid);
}

void ReplyRun::keep_turn(Choice& choice) {
  const ServedModel& model = *request_.job.model;
  if (!request_.prompt.turn_begin || !model.turns || !model.tokenizer || !request_.caches() || !choice.said)
    return;
  auto turn = std::make_shared<protocol::SampledTurn>();
  turn->message = message_of(choice);
  if (turn->message.find("tool_calls") == nullptr) {
    const std::string* content = turn->message.find_string("content");
    if (turn->message.find("reasoning_content") == nullptr || content == nullptr || content->empty()) return;
    turn->message[protocol::kTurnMember] = protocol::turn_id(request_.job.request->origin.reply_id.empty()
                                                                 ? request_.job.request->origin.id
                                                                 : request_.job.request->origin.reply_id,
                                                             choice.index);
  }
  turn->name = protocol::turn_name(turn->message);
  turn->tokens.assign(
      request_.prompt.tokens->begin() + static_cast<std::ptrdiff_t>(*request_.prompt.turn_begin),
      request_.prompt.tokens->end());
  turn->tokens.insert(turn->tokens.end(), choice.tokens.begin(),
                      choice.tokens.begin() + static_cast<std::ptrdiff_t>(*choice.said));
  for (const TokenId token : turn->tokens) turn->text += model.tokenizer->token_bytes(token);
  choice.turn = std::move(turn);
  model.turns->keep(request_.job.request->origin.tenant, model.arch.identity,
                    request_.job.request->cache.name_space, choice.turn);
  if (model.turn_store) {
    model.turn_store.tell(protocol::StoreTurn{.model = model.arch.identity,
                                              .name_space = request_.job.request->cache.name_space,
                                              .turn = choice.turn});
  }
}

protocol::Decode ReplyRun::start_decoding(Choice& choice, const OpenedSequence& sequence) {
  const ServedModel& model = *request_.job.model;
  choice.sequence = sequence.id;
  if (model.tokenizer) {
    // In a chat, special tokens may mark tool calls; those that end a message never become text.
    const bool chat = std::holds_alternative<protocol::ChatPrompt>(request_.job.request->prompt);
    choice.text.emplace(*model.tokenizer, models::DecodeOptions{.skip_special = !chat, .continuation = true},
                        request_.job.request->rules.stop);
  }
  if (request_.prompt.masks) {
    choice.constraint = std::make_shared<protocol::grammar::ReplyConstraint>(request_.prompt.masks,
                                                                             request_.prompt.max_tokens);
  }
  if (request_.prompt.reasoning_budget || request_.ends_reasoning) begin_budget(choice);
  // Reasoning may have to be ended at any time.
  if (choice.constraint || model.has_reasoning()) {
    choice.masks = std::make_shared<MaskSlot>(first_masked(choice));
  }
  protocol::SharedPlan reply_plan;
  protocol::SharedPlan call_plan;
  const std::optional<TokenId> call_opener =
      request_.prompt.turn_begin ? model.card.chat->call_opener() : std::nullopt;
  // The device takes no checkpoints after a compacted prompt, whose replies differ from a cold run.
  if (choices_.size() == 1 && request_.main->writes_cache && model.arch.decode_is_canonical) {
    protocol::CheckpointPlan plan = prompt_run_.plan_of(*request_.main);
    plan.flight = 0;  // no one waits for their adoption
    plan.origin_elsewhere = protocol::Origin::kReply;
    reply_plan = std::make_shared<const protocol::CheckpointPlan>(plan);
    plan.origin_elsewhere = protocol::Origin::kCall;
    if (call_opener) call_plan = std::make_shared<const protocol::CheckpointPlan>(std::move(plan));
  }
  auto [writer, reader] = runtime::make_stream<protocol::DecodeEvent>(kTokenWindow);
  choice.in = std::move(reader);
  return {.sequence = choice.sequence,
          .sampling = request_.prompt.sampling,
          .choice = choice.index,
          .max_tokens = request_.prompt.max_tokens,
          .stop_tokens = request_.prompt.stop_tokens,
          .masks = choice.masks,
          .plan = std::move(reply_plan),
          .checkpoint_every = model.checkpoints.reply_every,
          .call_plan = std::move(call_plan),
          .call_opener = call_opener.value_or(-1),
          .out = std::move(writer)};
}

// Requires: the model has tokens that mark reasoning.
void ReplyRun::begin_budget(Choice& choice) {
  const ServedModel& model = *request_.job.model;
  choice.budget.emplace(
      model.card.chat,
      [tokenizer = model.tokenizer](TokenId id) { return std::string(tokenizer->token_bytes(id)); },
      request_.prompt.tail, request_.prompt.reasoning_budget.value_or(protocol::ReasoningBudget::kUnlimited));
  for (const TokenId token : choice.tokens) choice.budget->note(token);
  if (request_.ends_reasoning) choice.budget->end_now();
}

// Returns the first step of the choice that will need a mask, as far as known.
std::uint64_t ReplyRun::first_masked(Choice& choice) const {
  if (choice.constraint) return 0;
  if (!choice.budget) return MaskSlot::kNoStep;
  return choice.budget->free_tokens();
}

// Gives the device the mask of the next token while it computes that step. Returns false if the constraint's
// mask is not known yet.
bool ReplyRun::allow_next(Choice& choice) {
  SharedMask mask;
  if (const auto forced = choice.budget ? choice.budget->forced() : std::nullopt) {
    auto only = std::make_shared<TokenMask>(request_.job.model->arch.vocab);
    only->allow(*forced);
    only->count = 1;
    mask = std::move(only);
  } else if (choice.constraint) {
    mask = choice.constraint->mask_if_known();
    if (mask == nullptr) return false;
  }
  const bool has_mask = mask != nullptr;
  if (has_mask) choice.masks->put(choice.tokens.size(), std::move(mask));
  const bool moved = choice.masks->set_first_masked(first_masked(choice));
  if (has_mask || moved) request_.job.model->worker.tell(protocol::MaskReady{.sequence = choice.sequence});
  return true;
}

// Tokens already sampled are kept. Choices that have not begun start with their reasoning ended.
void ReplyRun::end_reasoning() {
  if (request_.ends_reasoning || !request_.job.model->has_reasoning()) return;
  request_.ends_reasoning = true;
  for (const auto& choice : choices_) {
    if (choice->masks == nullptr || choice->finished) continue;
    if (choice->budget) {
      choice->budget->end_now();
    } else {
      begin_budget(*choice);
    }
    // Otherwise the mask of the constraint was given or is being made.
    if (choice->budget->forced() || !choice->constraint) static_cast<void>(allow_next(*choice));
  }
}

// The mask is made by another actor: it may take milliseconds, and other requests share this thread.
Task<RequestFailure> ReplyRun::give_made_mask(Choice& choice) {
  auto asked = request_.job.mask_makers->ask(
      MaskJob{choice.constraint,
              {request_.job.request->origin.tenant, request_.job.request->origin.text_time}},
      request_.lost.token());
  Result<MaskJob::Reply> answered = co_await asked;
  if (!answered.ok()) co_return request_.failure_of(answered.error());
  MaskJob::Reply made = std::move(*answered);
  if (!made.ok()) {
    Error error = made.error();
    error.param = request_.job.request->rules.constraint.field;
    co_return error;
  }
  choice.masks->put(choice.tokens.size(), std::move(*made));
  request_.job.model->worker.tell(protocol::MaskReady{.sequence = choice.sequence});
  co_return std::nullopt;
}

Task<RequestFailure> ReplyRun::next_token(Choice& choice) {
  const ServedModel& model = *request_.job.model;
  auto reading = choice.in.next(runtime::TimePoint::max(), request_.lost.token());
  Result<protocol::DecodeEvent> event = co_await reading;
  if (!event.ok()) co_return request_.failure_of(event.error());
  if (event->end == protocol::DecodeEnd::kFault) co_return request_.failure_of(event->error);
  choice.reported = event->reported;
  protocol::Delta delta{.choice = choice.index, .text = {}, .tokens = {}};
  const bool ends_by_token = event->end == protocol::DecodeEnd::kStopToken;
  bool mask_is_late = false;
  if (event->token) {
    const protocol::DecodedToken& token = *event->token;
    if (request_.usage.completion_tokens++ == 0) {
      request_.usage.timing.first_token_ms = request_.since_arrival_ms();
      request_.trace().mark("first_token");
    }
    request_.job.meter->reply_tokens.store(request_.usage.completion_tokens, std::memory_order_relaxed);
    choice.tokens.push_back(token.token);
    if (choice.budget) choice.budget->note(token.token);
    if (choice.constraint && !event->end) choice.constraint->note(token.token);
    if ((choice.budget || choice.constraint) && !event->end) mask_is_late = !allow_next(choice);
    const auto bytes_of = [&](TokenId id) {
      return model.tokenizer ? std::string(model.tokenizer->token_bytes(id)) : std::string();
    };
    protocol::ReplyToken reply{.id = token.token, .bytes = bytes_of(token.token), .logprob = token.logprob};
    for (const auto& [id, logprob] : token.top) reply.top.push_back({id, bytes_of(id), logprob});
    delta.tokens.push_back(std::move(reply));
    const auto& eos = model.special.eos;
    const bool ends_message = ends_by_token || std::find(eos.begin(), eos.end(), token.token) != eos.end();
    if (choice.text && !ends_message) delta.text = choice.text->push(token.token);
  }
  const bool stopped = choice.text && choice.text->stop().has_value();
  if (event->end && choice.text && !stopped) delta.text += choice.text->flush();
  if (stopped && request_.job.request->rules.keep_stop)
    delta.text += request_.job.request->rules.stop[choice.text->stop()->index];
  choice.reply += delta.text;
  Task<bool> sending = send(std::move(delta));
  if (!co_await sending) co_return request_.failure_of(runtime::Error{runtime::ErrorCode::kCanceled});
  if (!event->end && !stopped) {
    if (!mask_is_late) co_return std::nullopt;
    Task<Failure> making = give_made_mask(choice);
    Failure failure = co_await making;
    co_return failure;
  }

  choice.finished = true;
  if (ends_by_token && !stopped) choice.said = choice.tokens.size() - (event->token ? 1 : 0);
  protocol::Finished finished{.choice = choice.index, .reason = FinishReason::kStop, .stop = {}};
  if (stopped) {
    finished.stop = request_.job.request->rules.stop[choice.text->stop()->index];
    model.worker.tell(protocol::Cancel{choice.sequence});
    // The state includes the tokens by which the device was ahead.
    for (bool more = !event->end; more;) {
      auto draining = choice.in.next(runtime::TimePoint::max(), request_.lost.token());
      const Result<protocol::DecodeEvent> extra = co_await draining;
      more = extra.ok() && !extra->end;
      if (extra.ok()) choice.reported = extra->reported;
      if (extra.ok() && extra->token) choice.tokens.push_back(extra->token->token);
    }
  } else if (event->end == protocol::DecodeEnd::kLength ||
             (choice.constraint && choice.constraint->is_narrowed())) {  // closed because its limit was near
    finished.reason = FinishReason::kLength;
  }
  Task<bool> ending = send(std::move(finished));
  if (!co_await ending) co_return request_.failure_of(runtime::Error{runtime::ErrorCode::kCanceled});
  co_return std::nullopt;
}

// Returns false if the client is gone. Choices wait one after the other for credit.
Task<bool> ReplyRun::send(protocol::Event event) {
  while (writing_) {
    auto waiting = written_.wait(runtime::TimePoint::max(), request_.lost.token());
    const Result<void> woken = co_await waiting;
    if (!woken.ok()) co_return false;
  }
  std::optional<Result<void>> written = request_.job.out.try_write(event);
  if (!written) {
    writing_ = true;
    auto writing = request_.job.out.write(std::move(event), runtime::TimePoint::max(), request_.lost.token());
    written = co_await writing;
    writing_ = false;
    written_.signal();
  }
  if (!written->ok() && written->error().code == runtime::ErrorCode::kEnded) request_.client_gone = true;
  co_return written->ok();
}

// Keeps the state after the reply, which covers all but its last token, for clients that send it back token
// for token.
Task<void> ReplyRun::keep_turn_end(Choice& choice) {
  const ServedModel& model = *request_.job.model;
  if (!request_.main->writes_cache || !model.arch.decode_is_canonical || choice.tokens.size() < 2) co_return;
  if (request_.main->kept) co_return;  // a compacted prompt differs from a cold run
  const std::size_t end = request_.main->tokens->size() + choice.tokens.size() - 1;
  if (!model.checkpoints.plans(
          {.origin = protocol::Origin::kTurnEnd, .at = static_cast<std::uint32_t>(end), .is_end = true})) {
    co_return;
  }
  protocol::CheckpointPlan plan = prompt_run_.plan_of(*request_.main);
  plan.origin_elsewhere = protocol::Origin::kTurnEnd;
  auto asked = model.worker.ask(
      protocol::SnapshotKv{.sequence = choice.sequence,
                           .kind = protocol::SnapshotKv::Kind::kCanonical,
                           .plan = std::make_shared<const protocol::CheckpointPlan>(std::move(plan))},
      kSnapshotDeadline, request_.lost.token());
  const protocol::JobResult<protocol::SnapshotTaken> taken = protocol::answer_of(co_await asked);
  if (!taken.ok() || !taken->reported) co_return;
  Task<void> settling = prompt_run_.settle(request_.main->number, ++request_.main->reported);
  co_await settling;
}

// -- embeddings

Task<RequestFailure> ReplyRun::give_embedding() {
  std::vector<float> values = std::move(request_.main->hidden);
  if (request_.job.request->embedding->pooling == protocol::Pooling::kMean) {
    for (float& value : values) value /= static_cast<float>(request_.usage.prompt_tokens);
  }
  Task<bool> sending = send(protocol::Embedded{.values = std::move(values)});
  const bool sent = co_await sending;
  request_.client_gone = request_.client_gone || !sent;
  Task<void> settling = prompt_run_.all_settled();
  co_await settling;
  co_return std::nullopt;
}

}  // namespace reprise::actors
