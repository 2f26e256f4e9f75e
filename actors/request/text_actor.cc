#include "actors/request/text_actor.h"

#include <ctime>

#if defined(__linux__)
#include <sys/resource.h>
#endif

#include "actors/request/prompt_text.h"
#include "actors/served/model_directory.h"

namespace reprise::actors {

using protocol::Answer;
using protocol::ServiceError;
using protocol::ServiceErrorCode;
using protocol::grammar::IsWanted;
using ModelPtr = std::shared_ptr<const ServedModel>;

Answer<ModelPtr> TextActor::find(const std::string& name, bool wants_text) const {
  Answer<ModelChoice> found = choose_model(*directory_, name);
  if (auto* error = std::get_if<ServiceError>(&found)) return std::move(*error);
  ModelPtr model = std::get<ModelChoice>(std::move(found)).model;
  if (wants_text && !model->tokenizer) {
    return ServiceError{ServiceErrorCode::kUnsupported, "model '" + model->card.id + "' has no tokenizer",
                        "model"};
  }
  return model;
}

namespace {

// The threads that compute come first: a nice value of 5 leaves text work a fourth of a core that both want.
void lower_priority_of_this_thread() {
#if defined(__linux__)
  constexpr int kNice = 5;
  static_cast<void>(setpriority(PRIO_PROCESS, 0, kNice));  // 0: on Linux the calling thread alone
#endif
}

// What `work` answers, or what it threw.
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
  if (auto* error = std::get_if<ServiceError>(&found)) return std::move(*error);
  return guarded<TokenizeJob::Reply>(
      "content", [&] { return tokenize(*std::get<ModelPtr>(found)->tokenizer, job.request); });
}

DetokenizeJob::Reply TextActor::done(const DetokenizeJob& job, const IsWanted&) const {
  Answer<ModelPtr> found = find(job.request.model, true);
  if (auto* error = std::get_if<ServiceError>(&found)) return std::move(*error);
  return guarded<DetokenizeJob::Reply>("tokens", [&] {
    return protocol::Detokenized{std::get<ModelPtr>(found)->tokenizer->decode(job.request.tokens)};
  });
}

RenderJob::Reply TextActor::done(const RenderJob& job, const IsWanted&) const {
  Answer<ModelPtr> found = find(job.request.model, false);
  if (auto* error = std::get_if<ServiceError>(&found)) return std::move(*error);
  const ServedModel& model = *std::get<ModelPtr>(found);
  if (model.card.chat == nullptr) {
    return ServiceError{ServiceErrorCode::kUnsupported, "model '" + model.card.id + "' has no chat template",
                        "messages"};
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
    return ServiceError{ServiceErrorCode::kUnsupported, "the request has no chat that the reply belongs to"};
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
      return ServiceError{ServiceErrorCode::kInvalid, error.what()};
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

protocol::Nothing TextActor::on(const protocol::InjectCrash&) {
  throw std::runtime_error("a crash of a text actor was injected");
}

}  // namespace reprise::actors
