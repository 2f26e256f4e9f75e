#include "protocol/openai/unsupported.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "protocol/api/api_error.h"
#include "protocol/api/fields.h"

namespace reprise::protocol::openai {
namespace {

/// The values of a field that ask for nothing special; null always is one.
enum class Harmless { kNullOnly, kFalse, kTrue, kZero, kOne, kEmpty, kMinusOne };

struct Unsupported {
  std::string_view name;
  Harmless harmless;
};

constexpr std::array kUnsupported = {
    // OpenAI
    Unsupported{"audio", Harmless::kNullOnly},
    Unsupported{"prediction", Harmless::kNullOnly},
    Unsupported{"web_search_options", Harmless::kNullOnly},
    Unsupported{"functions", Harmless::kEmpty},
    Unsupported{"function_call", Harmless::kNullOnly},
    Unsupported{"moderation", Harmless::kNullOnly},
    // vLLM and SGLang
    Unsupported{"logits_processors", Harmless::kEmpty},
    Unsupported{"use_beam_search", Harmless::kFalse},
    Unsupported{"length_penalty", Harmless::kOne},
    Unsupported{"allowed_token_ids", Harmless::kEmpty},
    Unsupported{"bad_words", Harmless::kEmpty},
    Unsupported{"skip_special_tokens", Harmless::kTrue},
    Unsupported{"prompt_logprobs", Harmless::kNullOnly},
    Unsupported{"prompt_embeds", Harmless::kEmpty},
    Unsupported{"chat_template", Harmless::kNullOnly},
    Unsupported{"documents", Harmless::kEmpty},
    Unsupported{"mm_processor_kwargs", Harmless::kNullOnly},
    Unsupported{"lora_path", Harmless::kNullOnly},
    Unsupported{"token_healing", Harmless::kFalse},
    // llama.cpp
    Unsupported{"grammar_lazy", Harmless::kFalse},
    Unsupported{"reasoning_budget_message", Harmless::kEmpty},
    Unsupported{"samplers", Harmless::kNullOnly},
    Unsupported{"dynatemp_range", Harmless::kZero},
    Unsupported{"lora", Harmless::kEmpty},
};

bool by_name(const Unsupported& a, const Unsupported& b) {
  return a.name < b.name;
}

const Unsupported* find_unsupported(std::string_view name) {
  static const auto sorted = [] {
    auto fields = kUnsupported;
    std::sort(fields.begin(), fields.end(), by_name);
    return fields;
  }();
  const auto* place = std::lower_bound(sorted.begin(), sorted.end(), Unsupported{name, {}}, by_name);
  return place != sorted.end() && place->name == name ? place : nullptr;
}

bool is_number(const Json& value, double number) {
  return value.is_number() && value.as_double() == number;
}

bool is_harmless(const Json& value, Harmless harmless) {
  switch (harmless) {
    case Harmless::kNullOnly:
      return false;
    case Harmless::kFalse:
      return value.is_bool() && !value.as_bool();
    case Harmless::kTrue:
      return value.is_bool() && value.as_bool();
    case Harmless::kZero:
      return is_number(value, 0);
    case Harmless::kOne:
      return is_number(value, 1);
    case Harmless::kMinusOne:
      return is_number(value, -1);
    case Harmless::kEmpty:
      return value.is_string() ? value.as_string().empty()
                               : (value.is_array() || value.is_object()) && value.size() == 0;
  }
  return false;
}

void refuse_modalities(const Json& modalities) {
  const bool text_only = modalities.is_array() && modalities.size() == 1 &&
                         modalities.as_array()[0].is_string() &&
                         modalities.as_array()[0].as_string() == "text";
  if (!text_only) refuse_unsupported("modalities", "only [\"text\"] is supported");
}

}  // namespace

void refuse_unsupported_fields(const Json& body) {
  for (const Json::Member& member : body.as_object()) {
    if (member.value.is_null()) continue;
    if (member.key == "modalities") refuse_modalities(member.value);
    const Unsupported* field = find_unsupported(member.key);
    if (field != nullptr && !is_harmless(member.value, field->harmless)) {
      refuse_unsupported(member.key, "is not supported by this server");
    }
  }
}

}  // namespace reprise::protocol::openai
