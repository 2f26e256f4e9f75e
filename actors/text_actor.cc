#include "actors/text_actor.h"

#include "actors/prompt_text.h"

namespace reprise::actors {

using protocol::Answer;
using protocol::ServiceError;
using protocol::ServiceErrorCode;
using ModelPtr = std::shared_ptr<const ServedModel>;

Answer<ModelPtr> find_model(const ModelDirectory& directory, const std::string& name) {
  const std::optional<ModelDirectory::Entry> entry = directory.find(name);
  if (!entry) {
    return ServiceError{ServiceErrorCode::kUnknownModel,
                        name.empty() ? "no model is loaded" : "there is no model '" + name + "'", "model"};
  }
  if (entry->model) return entry->model;
  return ServiceError{ServiceErrorCode::kUnavailable, "model '" + entry->card.id + "' " + entry->detail,
                      "model", std::chrono::seconds(1)};
}

Answer<ModelPtr> TextActor::find(const std::string& name, bool wants_text) const {
  Answer<ModelPtr> found = find_model(*directory_, name);
  if (const auto* model = std::get_if<ModelPtr>(&found);
      model != nullptr && wants_text && !(*model)->tokenizer) {
    return ServiceError{ServiceErrorCode::kUnsupported, "model '" + (*model)->card.id + "' has no tokenizer",
                        "model"};
  }
  return found;
}

TokenizeJob::Reply TextActor::on(const TokenizeJob& job) {
  Answer<ModelPtr> found = find(job.request.model, true);
  if (auto* error = std::get_if<ServiceError>(&found)) return std::move(*error);
  const models::Tokenizer& tokenizer = *std::get<ModelPtr>(found)->tokenizer;
  protocol::Tokenized answer;
  answer.tokens = tokenizer.encode(job.request.text, {.parse_special = job.request.parse_special});
  if (job.request.add_special) {
    if (tokenizer.adds_bos() && tokenizer.bos())
      answer.tokens.insert(answer.tokens.begin(), *tokenizer.bos());
    if (tokenizer.adds_eos() && tokenizer.eos()) answer.tokens.push_back(*tokenizer.eos());
  }
  if (job.request.with_pieces) {
    for (const TokenId id : answer.tokens) answer.pieces.emplace_back(tokenizer.token_bytes(id));
  }
  return answer;
}

DetokenizeJob::Reply TextActor::on(const DetokenizeJob& job) {
  Answer<ModelPtr> found = find(job.request.model, true);
  if (auto* error = std::get_if<ServiceError>(&found)) return std::move(*error);
  return protocol::Detokenized{std::get<ModelPtr>(found)->tokenizer->decode(job.request.tokens)};
}

RenderJob::Reply TextActor::on(const RenderJob& job) {
  Answer<ModelPtr> found = find(job.request.model, false);
  if (auto* error = std::get_if<ServiceError>(&found)) return std::move(*error);
  const ServedModel& model = *std::get<ModelPtr>(found);
  if (!model.render) {
    return ServiceError{ServiceErrorCode::kUnsupported, "model '" + model.card.id + "' has no chat template",
                        "messages"};
  }
  auto rendered = model.render(job.request.chat);
  if (!rendered.ok()) return rendered.error();
  return protocol::Rendered{*rendered + job.request.chat.reply_opening};
}

}  // namespace reprise::actors
