// Decoding: the choices of a request, token by token, as events for its client.

#include <algorithm>

#include "actors/request_parts.h"
#include "protocol/token_hash.h"

namespace reprise::actors {

using protocol::FinishReason;
using protocol::ServiceError;
using protocol::ServiceErrorCode;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::uint32_t kTokenWindow = 16;  // tokens that the device may be ahead of a request
constexpr std::chrono::minutes kWorkerDeadline{10};

}  // namespace

Task<RequestActor::Failure> RequestActor::decode() {
  end_of_watch_.cancel();  // from here on every event tells
  choices_.push_back(std::make_unique<Choice>());
  choices_.front()->sequence = main_->sequence.get();
  if (job_.request.n > 1) {
    Task<Failure> forking = fork();
    if (Failure failure = co_await forking) co_return failure;
  }
  for (const auto& choice : choices_) start_decoding(*choice);
  // All choices decode in the same steps of the device, so taking turns costs none of them anything.
  std::size_t left = choices_.size();
  while (left > 0) {
    for (const auto& choice : choices_) {
      if (choice->finished) continue;
      Task<Failure> taking = next_token(*choice);
      if (Failure failure = co_await taking) co_return failure;
      if (choice->finished) --left;
    }
  }
  usage_.timing.decode_ms = since_arrival_ms() - usage_.timing.first_token_ms;
  for (const auto& choice : choices_) {
    Task<void> keeping = keep_turn_end(*choice);
    co_await keeping;
  }
  Task<void> inserting = inserts_done();
  co_await inserting;
  co_return std::nullopt;
}

// n - 1 more sequences from the state behind the prompt.
Task<RequestActor::Failure> RequestActor::fork() {
  const ServedModel& model = *job_.model;
  auto asked = model.worker.ask(
      protocol::SnapshotKv{.sequence = main_->sequence->id, .kind = protocol::SnapshotKv::Kind::kRaw},
      kWorkerDeadline, lost_.token());
  const Result<protocol::JobResult<protocol::SnapshotTaken>> taken = co_await asked;
  if (!taken.ok()) co_return failure_of(taken.error());
  if (!taken->ok()) co_return failure_of(taken->error());
  const protocol::SnapshotId snapshot = (*taken)->snapshot;
  for (std::uint32_t index = 1; index < job_.request.n; ++index) {
    auto choice = std::make_unique<Choice>();
    choice->index = index;
    choice->own_sequence = std::make_unique<OpenedSequence>(model);
    choice->sequence = choice->own_sequence.get();
    auto opening = model.worker.ask(protocol::OpenSequence{.arch = model.arch.arch,
                                                           .ticket = choice->sequence->ticket(),
                                                           .prompt_tokens = usage_.prompt_tokens,
                                                           .max_tokens = prompt_.max_tokens,
                                                           .shared_tokens = usage_.prompt_tokens},
                                    model.limits.longest_wait, lost_.token());
    const Result<protocol::JobResult<protocol::Opened>> opened = co_await opening;
    if (!opened.ok()) co_return failure_of(opened.error());
    if (!opened->ok()) co_return failure_of(opened->error());
    choice->sequence->id = (*opened)->sequence;
    auto restoring =
        model.worker.ask(protocol::RestoreKv{.sequence = choice->sequence->id,
                                             .snapshot = snapshot,
                                             .at = usage_.prompt_tokens,
                                             .token_hash = protocol::token_hash(*prompt_.tokens)},
                         kWorkerDeadline, lost_.token());
    const Result<protocol::JobResult<protocol::Restored>> restored = co_await restoring;
    if (!restored.ok()) co_return failure_of(restored.error());
    if (!restored->ok()) co_return failure_of(restored->error());
    choices_.push_back(std::move(choice));
  }
  auto dropping =
      model.worker.ask(protocol::DropKvSnapshot{.snapshot = snapshot}, kWorkerDeadline, lost_.token());
  const Result<protocol::Dropped> dropped = co_await dropping;
  static_cast<void>(dropped);
  co_return std::nullopt;
}

void RequestActor::start_decoding(Choice& choice) {
  const ServedModel& model = *job_.model;
  if (model.tokenizer) {
    // In a chat special tokens may be marks of tool calls; those that end a message never become text.
    const bool chat = std::holds_alternative<protocol::ChatPrompt>(job_.request.prompt);
    choice.text.emplace(*model.tokenizer, models::DecodeOptions{.skip_special = !chat, .continuation = true},
                        job_.request.stop);
  }
  auto [writer, reader] = runtime::make_stream<protocol::DecodeEvent>(kTokenWindow);
  choice.in = std::move(reader);
  model.worker.tell(protocol::Decode{.sequence = choice.sequence->id,
                                     .sampling = prompt_.sampling,
                                     .choice = choice.index,
                                     .max_tokens = prompt_.max_tokens,
                                     .stop_tokens = prompt_.stop_tokens,
                                     .out = std::move(writer)});
}

Task<RequestActor::Failure> RequestActor::next_token(Choice& choice) {
  const ServedModel& model = *job_.model;
  auto reading = choice.in.next(runtime::TimePoint::max(), lost_.token());
  Result<protocol::DecodeEvent> event = co_await reading;
  if (!event.ok()) co_return failure_of(event.error());
  if (event->end == protocol::DecodeEnd::kFault) co_return failure_of(event->error);
  protocol::Delta delta{.choice = choice.index, .text = {}, .tokens = {}};
  const bool ends_by_token = event->end == protocol::DecodeEnd::kStopToken;
  if (event->token) {
    const protocol::DecodedToken& token = *event->token;
    if (usage_.completion_tokens++ == 0) usage_.timing.first_token_ms = since_arrival_ms();
    choice.tokens.push_back(token.token);
    const auto bytes_of = [&](protocol::TokenId id) {
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
  choice.reply += delta.text;
  Task<bool> sending = send(std::move(delta));
  if (!co_await sending) co_return failure_of(runtime::Error{runtime::ErrorCode::kCancelled});
  if (!event->end && !stopped) co_return std::nullopt;

  choice.finished = true;
  protocol::Finished finished{.choice = choice.index, .reason = FinishReason::kStop, .stop = {}};
  if (stopped) {
    finished.stop = job_.request.stop[choice.text->stop()->index];
    model.worker.tell(protocol::Cancel{choice.sequence->id});
    // What the device was ahead by is in its state.
    for (bool more = !event->end; more;) {
      auto draining = choice.in.next(runtime::TimePoint::max(), lost_.token());
      const Result<protocol::DecodeEvent> extra = co_await draining;
      more = extra.ok() && !extra->end;
      if (extra.ok() && extra->token) choice.tokens.push_back(extra->token->token);
    }
  } else if (event->end == protocol::DecodeEnd::kLength) {
    finished.reason = FinishReason::kLength;
  }
  Task<bool> ending = send(std::move(finished));
  if (!co_await ending) co_return failure_of(runtime::Error{runtime::ErrorCode::kCancelled});
  co_return std::nullopt;
}

// False: the client has gone.
Task<bool> RequestActor::send(protocol::Event event) {
  std::optional<Result<void>> written = job_.out.try_write(event);
  if (!written) {
    auto writing = job_.out.write(std::move(event), runtime::TimePoint::max(), lost_.token());
    written = co_await writing;
  }
  if (!written->ok() && written->error().code == runtime::ErrorCode::kEnded) client_gone_ = true;
  co_return written->ok();
}

// The state behind the reply, for clients that send it back token for token.
Task<void> RequestActor::keep_turn_end(Choice& choice) {
  const ServedModel& model = *job_.model;
  if (!main_->writes_cache || !model.arch.decode_is_canonical) co_return;
  auto asked = model.worker.ask(
      protocol::SnapshotKv{.sequence = choice.sequence->id, .kind = protocol::SnapshotKv::Kind::kCanonical},
      kWorkerDeadline, lost_.token());
  const Result<protocol::JobResult<protocol::SnapshotTaken>> taken = co_await asked;
  if (!taken.ok() || !taken->ok()) co_return;
  protocol::TokenList tokens = *prompt_.tokens;
  tokens.insert(tokens.end(), choice.tokens.begin(), choice.tokens.end());
  if (tokens.size() < (*taken)->tokens || (*taken)->tokens <= prompt_.tokens->size()) co_return;
  auto inserting = model.registry.ask(protocol::Insert{.flight = 0,
                                                       .request = main_->request,
                                                       .name_space = job_.request.name_space,
                                                       .tokens = protocol::share(std::move(tokens)),
                                                       .snapshot = **taken,
                                                       .origin = protocol::Origin::kTurnEnd,
                                                       .conversation = main_->conversation,
                                                       .keep = main_->keep},
                                      kWorkerDeadline, lost_.token());
  const Result<protocol::InsertReply> inserted = co_await inserting;
  static_cast<void>(inserted);
}

}  // namespace reprise::actors
