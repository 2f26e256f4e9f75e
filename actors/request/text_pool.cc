#include "actors/request/text_pool.h"

#include <algorithm>
#include <ctime>

#if defined(__linux__)
#include <sys/resource.h>
#endif

#include "models/text/tokenizer.h"

namespace reprise::actors {

using protocol::Answer;
using protocol::Error;
using protocol::ErrorKind;
using protocol::grammar::IsWanted;
using ModelPtr = std::shared_ptr<const ServedModel>;

Answer<ModelPtr> TextActor::find(const std::string& name, bool wants_text) const {
  Answer<ModelChoice> found = choose_model(*directory_, name);
  if (auto* error = std::get_if<Error>(&found)) return std::move(*error);
  ModelPtr model = std::get<ModelChoice>(std::move(found)).model;
  if (wants_text && !model->tokenizer) {
    return Error{ErrorKind::kUnsupported, "model '" + model->card.id + "' has no tokenizer", "model"};
  }
  return model;
}

namespace {

// A nice value of 5 leaves text work a quarter of a core that it shares with a computing thread.
void lower_priority_of_this_thread() {
#if defined(__linux__)
  constexpr int kNice = 5;
  static_cast<void>(setpriority(PRIO_PROCESS, 0, kNice));  // 0: on Linux, the calling thread only
#endif
}

// Returns the answer of `work`, or an error if it throws.
template <class Reply, class Work>
Reply guarded(const char* field, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return text_error(error, field);
  }
}

protocol::Tokenized tokenize(const models::Tokenizer& tokenizer, const protocol::TokenizeRequest& request) {
  protocol::Tokenized answer;
  answer.tokens = tokenizer.encode(request.text, {.parse_special = request.parse_special});
  if (request.add_special) {
    if (tokenizer.adds_bos() && tokenizer.bos())
      answer.tokens.insert(answer.tokens.begin(), *tokenizer.bos());
    if (tokenizer.adds_eos() && tokenizer.eos()) answer.tokens.push_back(*tokenizer.eos());
  }
  if (request.with_pieces) {
    for (const TokenId id : answer.tokens) answer.pieces.emplace_back(tokenizer.token_bytes(id));
  }
  return answer;
}

}  // namespace

TokenizeJob::Reply TextActor::done(const TokenizeJob& job, const IsWanted&) const {
  Answer<ModelPtr> found = find(job.request.model, true);
  if (auto* error = std::get_if<Error>(&found)) return std::move(*error);
  return guarded<TokenizeJob::Reply>(
      "content", [&] { return tokenize(*std::get<ModelPtr>(found)->tokenizer, job.request); });
}

DetokenizeJob::Reply TextActor::done(const DetokenizeJob& job, const IsWanted&) const {
  Answer<ModelPtr> found = find(job.request.model, true);
  if (auto* error = std::get_if<Error>(&found)) return std::move(*error);
  return guarded<DetokenizeJob::Reply>("tokens", [&] {
    return protocol::Detokenized{std::get<ModelPtr>(found)->tokenizer->decode(job.request.tokens)};
  });
}

RenderJob::Reply TextActor::done(const RenderJob& job, const IsWanted&) const {
  Answer<ModelPtr> found = find(job.request.model, false);
  if (auto* error = std::get_if<Error>(&found)) return std::move(*error);
  const ServedModel& model = *std::get<ModelPtr>(found);
  if (model.card.chat == nullptr) {
    return Error{ErrorKind::kUnsupported, "model '" + model.card.id + "' has no chat template", "messages"};
  }
  return guarded<RenderJob::Reply>("messages", [&]() -> RenderJob::Reply {
    if (!job.request.want_tokens) {
      auto rendered = model.card.chat->render(job.request.chat);
      if (!rendered.ok()) return rendered.error();
      return protocol::Rendered{.prompt = std::move(*rendered)};
    }
    auto shown = model.card.chat->show(job.request.chat, {});
    if (!shown.ok()) return shown.error();
    return protocol::Rendered{.prompt = std::move(shown->text), .tokens = std::move(shown->tokens)};
  });
}

PrepareJob::Reply TextActor::done(const PrepareJob& job, const IsWanted& wanted) const {
  return guarded<PrepareJob::Reply>("prompt",
                                    [&] { return prepare_prompt(*job.of.request, *job.of.model, wanted); });
}

HistoryJob::Reply TextActor::done(const HistoryJob& job, const IsWanted&) const {
  const auto* chat = std::get_if<protocol::ChatPrompt>(&job.of.request->prompt);
  const protocol::ChatFormatPtr& format = job.of.model->card.chat;
  if (chat == nullptr || format == nullptr) {
    return Error{ErrorKind::kUnsupported, "the request has no chat that the reply belongs to"};
  }
  return guarded<HistoryJob::Reply>("messages", [&]() -> HistoryJob::Reply {
    return format->history_after(*chat, job.of.reply, job.of.turns, job.of.reply_turn);
  });
}

MaskJob::Reply TextActor::done(const MaskJob& job, const IsWanted& wanted) const {
  return guarded<MaskJob::Reply>("", [&]() -> MaskJob::Reply {
    try {
      return job.of->mask(wanted);
    } catch (const protocol::grammar::GrammarError& error) {
      return Error{ErrorKind::kInvalid, error.what()};
    }
  });
}

std::uint64_t thread_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(now.tv_nsec) / 1000;
}

void TextActor::on_start() {
  lower_priority_of_this_thread();
  restarts_->texts.note_start();
}

protocol::Nothing TextActor::on(DoTextWork work) {
  if (!work.work->wanted()) return {};
  work.work->run(*this);
  return {};
}

// -- the queue

std::optional<std::string> TextProgress::problem(runtime::TimePoint now) const {
  const std::size_t held_up = held_up_.load(std::memory_order_relaxed);
  const auto idle =
      std::chrono::duration_cast<std::chrono::seconds>(now - since_.load(std::memory_order_relaxed));
  if (held_up == 0 || idle < kPatience) return std::nullopt;
  return "tokenizing stuck: " + std::to_string(held_up) + (held_up == 1 ? " job waits" : " jobs wait") +
         " and none has ended for " + std::to_string(idle.count()) + " s";
}

TextQueue::TextQueue(const Limits& limits, std::vector<runtime::RefOf<TextActor>> actors,
                     std::shared_ptr<TextProgress> progress)
    : actors_(std::move(actors)), progress_(std::move(progress)), queue_(limits) {
  for (std::size_t i = 0; i < actors_.size(); ++i) free_.push_back(i);
}

void TextQueue::enter(std::unique_ptr<TextWork> work) {
  const bool all_stopped =
      std::all_of(actors_.begin(), actors_.end(), [](const auto& actor) { return actor.stopped(); });
  if (all_stopped) {
    work->refuse({ErrorKind::kUnavailable,
                  "the tokenizer and template actors have failed too often; restart the server"});
    return;
  }
  const std::string owner = work->caller().tenant;
  if (auto refused = queue_.push(owner, std::move(work))) {
    const bool of_tenant = !(*refused)->caller().tenant.empty();
    (*refused)->refuse({ErrorKind::kOverloaded,
                        of_tenant ? "too many prompts of this tenant are waiting to be tokenized"
                                  : "too many prompts are waiting to be tokenized",
                        "", std::chrono::seconds(1)});
  }
  hand_out();
  note(false);
}

std::optional<std::size_t> TextQueue::free_actor() {
  while (!free_.empty()) {
    const std::size_t actor = free_.back();
    free_.pop_back();
    if (!actors_[actor].stopped()) return actor;
  }
  return std::nullopt;
}

void TextQueue::hand_out() {
  while (const auto actor = free_actor()) {
    auto next = queue_.take();
    while (next && !next->item->wanted()) {
      queue_.ended(next->owner);
      next = queue_.take();
    }
    if (!next) {
      free_.push_back(*actor);
      return;
    }
    launch(run(*actor, std::move(next->owner), std::move(next->item)));
  }
}

runtime::Task<void> TextQueue::run(std::size_t actor, std::string owner, std::unique_ptr<TextWork> work) {
  auto doing = actors_[actor].ask(DoTextWork{std::move(work)}, runtime::TimePoint::max());
  const runtime::Result<protocol::Nothing> done = co_await doing;  // the work itself has answered its asker
  queue_.ended(owner);
  free_.push_back(actor);
  hand_out();
  note(true);
}

void TextQueue::note(bool one_ended) {
  progress_->note(free_.empty() ? queue_.waiting() : 0, one_ended, runtime::Clock::now());
}

}  // namespace reprise::actors
