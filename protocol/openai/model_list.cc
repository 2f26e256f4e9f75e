#include "protocol/openai/model_list.h"

#include "base/utf8.h"
#include "protocol/openai/codex_models.h"

namespace reprise::protocol::openai {

Json describe(const ModelCard& card) {
  Json out{{"id", card.id},
           {"parent", card.parent.empty() ? Json() : Json(card.parent)},
           {"object", "model"},
           {"created", card.created},
           {"owned_by", "reprise"},
           {"architecture", card.architecture},
           {"max_model_len", card.context},
           {"vocab_size", card.vocab},
           {"takes_text", card.takes_text},
           {"takes_chat", card.takes_text && card.chat != nullptr},
           {"chat_template_assumed", card.chat_is_assumed},
           {"state", name_of(card.state)}};
  Json aliases = Json::array();
  for (const std::string& alias : card.aliases) aliases.push_back(alias);
  out["aliases"] = std::move(aliases);
  if (card.state == ModelCard::State::kLoading) out["loaded"] = card.loaded_permille / 1000.0;
  if (!card.problem.empty()) out["problem"] = as_utf8(card.problem);
  return out;
}

runtime::Task<Question::Answered> ModelListQuestion::answer(Service& service) {
  Json data = Json::array();
  Json for_codex = Json::array();
  for (const ModelCard& card : service.models()) {
    data.push_back(describe(card));
    for_codex.push_back(describe_for_codex(card));
  }
  co_return Json{{"object", "list"}, {"data", std::move(data)}, {"models", std::move(for_codex)}}.dump();
}

runtime::Task<Question::Answered> ModelQuestion::answer(Service& service) {
  const std::vector<ModelCard> cards = service.models();
  const ModelCard* found = id_.empty() ? nullptr : card_named(cards, id_);
  if (found != nullptr) co_return describe(*found).dump();
  std::vector<std::string> served;
  for (const ModelCard& card : cards) served.push_back(card.id);
  co_return ApiError{
      .status = 404, .message = no_such_model(id_, served), .code = "model_not_found", .param = "model"};
}

}  // namespace reprise::protocol::openai
