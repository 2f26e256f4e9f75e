#include "protocol/llama/server_facts.h"

#include <algorithm>

#include "base/utf8.h"
#include "protocol/chat/chat_format.h"
#include "protocol/llama/generation_settings.h"
#include "protocol/openai/model_list.h"

namespace reprise::protocol::llama {
namespace {

Json words_in(const std::vector<std::string>& words) {
  Json list = Json::array();
  for (const std::string& word : words) list.push_back(word);
  return list;
}

ApiError nothing_served() {
  return {.status = 503,
          .message = "no model is loaded",
          .code = "unavailable",
          .retry_after = std::chrono::seconds(1)};
}

Json props_of(const ModelCard& card, bool has_slots) {
  const bool chats = card.chat != nullptr;
  return Json{{"default_generation_settings",
               Json{{"n_ctx", card.context}, {"params", default_settings(card)}, {"is_processing", false}}},
              {"total_slots", card.sequences},
              {"model_alias", card.id},
              {"model_path", card.file},
              {"modalities", Json{{"vision", false}, {"audio", false}}},
              {"endpoint_slots", has_slots},
              {"endpoint_props", false},
              {"endpoint_metrics", true},
              {"chat_template", chats ? as_utf8(card.chat->source()) : std::string()},
              {"chat_template_assumed", card.chat_is_assumed},
              {"bos_token", chats ? as_utf8(card.chat->bos()) : std::string()},
              {"eos_token", chats ? as_utf8(card.chat->eos()) : std::string()},
              {"build_info", "reprise"},
              {"is_sleeping", false}};
}

Json slot_of(std::uint32_t id, const ModelCard& card, const RunningRequest* running) {
  Json slot{
      {"id", id}, {"n_ctx", card.context}, {"speculative", false}, {"is_processing", running != nullptr}};
  if (running == nullptr) return slot;
  slot["id_task"] = static_cast<std::int64_t>(running->number);
  slot["n_prompt_tokens"] = running->prompt_tokens;
  slot["n_prompt_tokens_cache"] = running->reused_tokens;
  const std::uint32_t most = std::max(running->most_reply_tokens, running->reply_tokens);
  slot["next_token"] = Json::array();
  slot["next_token"].push_back(Json{{"has_next_token", running->reply_tokens < most},
                                    {"n_remain", most - running->reply_tokens},
                                    {"n_decoded", running->reply_tokens}});
  return slot;
}

}  // namespace

runtime::Task<Question::Answered> PropsQuestion::answer(Service& service) {
  const std::vector<ModelCard> cards = service.models();
  if (cards.empty()) co_return nothing_served();
  co_return props_of(cards.front(), has_slots_).dump();
}

runtime::Task<Question::Answered> SlotsQuestion::answer(Service& service) {
  if (!told_) {
    co_return ApiError{.status = 501,
                       .message = "this server does not show its slots: it was started with --no-slots",
                       .code = "unsupported"};
  }
  const std::vector<ModelCard> cards = service.models();
  if (cards.empty()) co_return nothing_served();
  const std::vector<RunningRequest> running = service.running();
  Json slots = Json::array();
  for (std::uint32_t i = 0; i < cards.front().sequences; ++i) {
    slots.push_back(slot_of(i, cards.front(), i < running.size() ? &running[i] : nullptr));
  }
  co_return slots.dump();
}

runtime::Task<Question::Answered> LlamaModelsQuestion::answer(Service& service) {
  Json data = Json::array();
  for (const ModelCard& card : service.models()) {
    Json model = openai::describe(card);
    const std::vector<std::string> itself{card.id};
    model["aliases"] = words_in(card.aliases.empty() ? itself : card.aliases);
    model["tags"] = words_in(card.tags);
    model["meta"] = Json{{"vocab_type", Json()}, {"n_vocab", card.vocab}, {"n_ctx_train", card.context}};
    data.push_back(std::move(model));
  }
  co_return Json{{"object", "list"}, {"data", std::move(data)}}.dump();
}

}  // namespace reprise::protocol::llama
