#include "protocol/ollama/facts.h"

#include <array>
#include <ctime>

#include "base/utf8.h"
#include "protocol/api/body.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/chat/chat_format.h"

namespace reprise::protocol::ollama {
namespace {

constexpr std::string_view kUsualTag = ":latest";

Json details_of(const ModelCard& card) {
  Json families = Json::array();
  families.push_back(card.architecture);
  return Json{
      {"parent_model", card.parent}, {"format", card.file.ends_with(".gguf") ? "gguf" : "safetensors"},
      {"family", card.architecture}, {"families", std::move(families)},
      {"parameter_size", ""},        {"quantization_level", ""}};
}

Json entry_of(const ModelCard& card) {
  return Json{{"name", card.id}, {"model", card.id}, {"modified_at", time_text(card.created)},
              {"size", 0},       {"digest", ""},     {"details", details_of(card)}};
}

/// What clients choose by.
Json capabilities_of(const ModelCard& card) {
  Json list = Json::array();
  list.push_back("completion");
  if (card.chat == nullptr) return list;
  const ReplyFormat& format = card.chat->reply_format();
  if (card.chat->call_opening("", "")) list.push_back("tools");
  if (format.has_reasoning()) list.push_back("thinking");
  return list;
}

}  // namespace

std::string time_text(std::int64_t seconds_since_1970) {
  const auto time = static_cast<std::time_t>(seconds_since_1970);
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text.data(), length};
}

std::string without_tag(const std::string& name) {
  return name.ends_with(kUsualTag) ? name.substr(0, name.size() - kUsualTag.size()) : name;
}

runtime::Task<Question::Answered> VersionQuestion::answer(Service&) {
  co_return Json{{"version", kOllamaVersion}}.dump();
}

runtime::Task<Question::Answered> TagsQuestion::answer(Service& service) {
  Json list = Json::array();
  for (const ModelCard& card : service.models()) {
    if (only_loaded_ && card.state != ModelCard::State::kReady) continue;
    list.push_back(entry_of(card));
  }
  co_return Json{{"models", std::move(list)}}.dump();
}

ShowQuestion::ShowQuestion(std::string_view body, const BodyLimits& limits) {
  const Json json = parse_body(body, limits, BodyHolds::kText);
  const Fields fields(json);
  const std::string* name = fields.string("model", limits.label_bytes);
  if (name == nullptr) name = fields.string("name", limits.label_bytes);
  if (name == nullptr) refuse_field("model", "missing", "is required");
  model_ = without_tag(*name);
  static_cast<void>(fields.find("verbose"));  // all that is shown is shown always
  unknown_fields = unknown_fields_of(fields);
}

runtime::Task<Question::Answered> ShowQuestion::answer(Service& service) {
  const std::vector<ModelCard> cards = service.models();
  if (const ModelCard* named = card_named(cards, model_)) {
    const ModelCard& card = *named;
    Json info{{"general.architecture", card.architecture}, {"general.basename", card.id}};
    info[card.architecture + ".context_length"] = card.context;
    info[card.architecture + ".vocab_size"] = card.vocab;
    co_return Json{{"modelfile", ""},
                   {"parameters", ""},
                   {"template", card.chat == nullptr ? std::string() : as_utf8(card.chat->source())},
                   {"details", details_of(card)},
                   {"model_info", std::move(info)},
                   {"capabilities", capabilities_of(card)},
                   {"modified_at", time_text(card.created)}}
        .dump();
  }
  co_return ApiError{.status = 404,
                     .message = "model '" + model_ + "' not found",
                     .code = "model_not_found",
                     .param = "model"};
}

}  // namespace reprise::protocol::ollama
