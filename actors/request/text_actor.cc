#include "actors/request/text_actor.h"

#include "actors/request/prompt_text.h"
#include "actors/served/model_choice.h"

namespace reprise::actors {

using protocol::Answer;
using protocol::ServiceError;
using protocol::ServiceErrorCode;
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

TokenizeJob::Reply TextActor::on(const TokenizeJob& job) {
  Answer<ModelPtr> found = find(job.request.model, true);
  if (auto* error = std::get_if<ServiceError>(&found)) return std::move(*error);
  return guarded<TokenizeJob::Reply>(
      "content", [&] { return tokenize(*std::get<ModelPtr>(found)->tokenizer, job.request); });
}

DetokenizeJob::Reply TextActor::on(const DetokenizeJob& job) {
  Answer<ModelPtr> found = find(job.request.model, true);
  if (auto* error = std::get_if<ServiceError>(&found)) return std::move(*error);
  return guarded<DetokenizeJob::Reply>("tokens", [&] {
    return protocol::Detokenized{std::get<ModelPtr>(found)->tokenizer->decode(job.request.tokens)};
  });
}

RenderJob::Reply TextActor::on(const RenderJob& job) {
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

// The place is given back before the answer: whoever has it may ask again at once, and is to find this actor free.
void TextActor::on(PrepareJob job, runtime::ReplyTo<PrepareJob::Reply> reply) {
  if (!reply.wanted()) return;
  auto prepared = guarded<PrepareJob::Reply>("prompt", [&] {
    return prepare_prompt(*job.of.request, *job.of.model, [&] { return reply.wanted(); });
  });
  job.place.reset();
  reply.answer(std::move(prepared));
}

void TextActor::on(HistoryJob job, runtime::ReplyTo<HistoryJob::Reply> reply) {
  const auto* chat = std::get_if<protocol::ChatPrompt>(&job.of.request->prompt);
  const protocol::ChatFormatPtr& format = job.of.model->card.chat;
  if (!reply.wanted() || chat == nullptr || format == nullptr) return;
  auto history = guarded<HistoryJob::Reply>("messages", [&]() -> HistoryJob::Reply {
    return format->history_after(*chat, job.of.reply, job.of.turns, job.of.reply_turn);
  });
  job.place.reset();
  reply.answer(std::move(history));
}

MaskJob::Reply made_mask(protocol::grammar::ReplyConstraint& constraint, protocol::grammar::IsWanted wanted) {
  return guarded<MaskJob::Reply>("", [&]() -> MaskJob::Reply {
    try {
      return constraint.mask(std::move(wanted));
    } catch (const protocol::grammar::GrammarError& error) {
      return ServiceError{ServiceErrorCode::kInvalid, error.what()};
    }
  });
}

void TextActor::on(MaskJob job, runtime::ReplyTo<MaskJob::Reply> reply) {
  if (!reply.wanted()) return;
  auto made = made_mask(*job.of, [&] { return reply.wanted(); });
  job.of.reset();
  job.place.reset();
  reply.answer(std::move(made));
}

protocol::Nothing TextActor::on(const protocol::InjectCrash&) {
  throw std::runtime_error("a crash of a text actor was injected");
}

}  // namespace reprise::actors
