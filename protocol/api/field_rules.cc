#include "protocol/api/field_rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "protocol/api/api_error.h"

namespace reprise::protocol {
namespace {

using Fate = FieldRule::Fate;

constexpr std::string_view kNoBeams = "only of beam search, which is refused";
constexpr std::string_view kOperators = "the operator decides where and how a model is held";
constexpr std::string_view kSpeed = "changes how fast an answer comes, not what it says";
constexpr std::string_view kByTemplate = "the model's template says this";
constexpr std::string_view kLabel = "a label for the client's own records";
constexpr std::string_view kTextOnly = "models here take text";
constexpr std::string_view kWholePrompt =
    "a prompt that is too long is refused; truncate_prompt_tokens shortens it";

constexpr std::array kRules = {
    // What an answer would be made from, or with
    FieldRule{"audio", Fate::kRefused, "", kTextOnly},
    FieldRule{"modalities", Fate::kRefused, R"(["text"])", kTextOnly},
    FieldRule{"images", Fate::kRefused, R"([] "" false)", kTextOnly},
    FieldRule{"image_data", Fate::kRefused, "[]", kTextOnly},
    FieldRule{"mm_processor_kwargs", Fate::kRefused, "{}", kTextOnly},
    FieldRule{"prompt_embeds", Fate::kRefused, R"([] "")", "use prompt"},
    FieldRule{"documents", Fate::kRefused, "[]", "put them into a message"},
    FieldRule{"system_prompt", Fate::kRefused, R"("" {})", "use a system message"},
    FieldRule{"context", Fate::kRefused, "[]", "send the earlier messages"},
    FieldRule{"prompt", Fate::kRefused, R"("" [])", "this API takes messages or input"},
    FieldRule{"conversation", Fate::kRefused, "", "use previous_response_id"},
    FieldRule{"functions", Fate::kRefused, "[]", "use tools"},
    FieldRule{"function_call", Fate::kRefused, R"("none" "auto")", "use tool_choice"},
    FieldRule{"web_search_options", Fate::kRefused, "", "use tools"},
    FieldRule{"mcp_servers", Fate::kRefused, "[]", "use tools"},
    FieldRule{"container", Fate::kRefused, "", "use tools"},
    FieldRule{"chat_template", Fate::kRefused, "", "the server's --chat-template sets it"},
    FieldRule{"template", Fate::kRefused, R"("")", "the server's --chat-template sets it"},
    FieldRule{"truncation", Fate::kRefused, R"("disabled")", kWholePrompt},
    // How tokens are drawn
    FieldRule{"logits_processors", Fate::kRefused, "[]", "use logit_bias"},
    FieldRule{"allowed_token_ids", Fate::kRefused, "[]", "use regex or grammar"},
    FieldRule{"bad_words", Fate::kRefused, "[]", "use logit_bias"},
    FieldRule{"samplers", Fate::kRefused, R"([] "")", "the order of samplers is fixed"},
    FieldRule{"dynatemp_range", Fate::kRefused, "0", "use temperature"},
    FieldRule{"mirostat", Fate::kRefused, "0", "use top_p, min_p or typical_p"},
    FieldRule{"use_beam_search", Fate::kRefused, "false", "use best_of"},
    FieldRule{"length_penalty", Fate::kRefused, "1", kNoBeams},
    FieldRule{"token_healing", Fate::kRefused, "false", ""},
    FieldRule{"lora", Fate::kRefused, "[]", "use adapter"},
    FieldRule{"lora_path", Fate::kRefused, "", "use adapter"},
    FieldRule{"prediction", Fate::kRefused, "", ""},
    FieldRule{"grammar_lazy", Fate::kRefused, "false", "use tools with strict"},
    FieldRule{"best_of", Fate::kRefused, "1", "completions have it"},
    // What an answer shows, and where it ends
    FieldRule{"echo", Fate::kRefused, "false", "completions have it"},
    FieldRule{"suffix", Fate::kRefused, R"("")", "completions have it"},
    FieldRule{"logprobs", Fate::kRefused, "false", "chat and completions have it; /completion has n_probs"},
    FieldRule{"top_logprobs", Fate::kRefused, "0", "chat completions have it"},
    FieldRule{"prompt_logprobs", Fate::kRefused, "", "completions have logprobs"},
    FieldRule{"return_tokens_as_token_ids", Fate::kRefused, "false", "use return_token_ids"},
    FieldRule{"skip_special_tokens", Fate::kRefused, "true", "use return_token_ids"},
    FieldRule{"stop_regex", Fate::kRefused, R"([] "")", "use stop, or regex for the whole answer"},
    FieldRule{"no_stop_trim", Fate::kRefused, "false", "use include_stop_str_in_output"},
    FieldRule{"reasoning_budget_message", Fate::kRefused, R"("")", ""},
    FieldRule{"background", Fate::kRefused, "false", "use stream"},
    FieldRule{"moderation", Fate::kRefused, "", ""},
    // Reported unless neutral: clients send these values to say nothing
    FieldRule{"t_max_predict_ms", Fate::kReported, "0 -1", "use max_tokens"},
    FieldRule{"t_max_prompt_ms", Fate::kReported, "0 -1", "prompts are computed to their end"},
    FieldRule{"n_indent", Fate::kReported, "0", "lines are indented as the model writes them"},
    FieldRule{"min_keep", Fate::kReported, "0 1", "samplers keep at least one token"},
    FieldRule{"tfs_z", Fate::kReported, "1", "its servers have dropped it"},
    FieldRule{"typ_p", Fate::kReported, "1", "use typical_p"},
    FieldRule{"penalize_nl", Fate::kReported, "false", "its servers have dropped it"},
    FieldRule{"penalize_newline", Fate::kReported, "false", "its servers have dropped it"},
    FieldRule{"penalty_prompt", Fate::kReported, "", "its servers have dropped it"},
    FieldRule{"add_special_tokens", Fate::kReported, "", kByTemplate},
    FieldRule{"include_reasoning", Fate::kReported, "true", "reasoning is a part of its own in every answer"},
    FieldRule{"separate_reasoning", Fate::kReported, "true",
              "reasoning is a part of its own in every answer"},
    FieldRule{"stream_reasoning", Fate::kReported, "true", "reasoning streams as it comes"},
    FieldRule{"reasoning_format", Fate::kReported, R"("auto" "deepseek")",
              "reasoning is a part of its own in every answer"},
    FieldRule{"reasoning_in_content", Fate::kReported, "false",
              "reasoning is a part of its own in every answer"},
    FieldRule{"parse_tool_calls", Fate::kReported, "true", "tool calls are always read"},
    FieldRule{"tool_choice", Fate::kReported, R"("auto" "none")",
              "only of APIs with tools; a summary calls none"},
    FieldRule{"verbosity", Fate::kReported, R"("medium")", "ask for it in a message"},
    FieldRule{"text.verbosity", Fate::kReported, R"("medium")", "ask for it in a message"},
    // Ignored
    FieldRule{"user", Fate::kIgnored, "", kLabel},
    FieldRule{"metadata", Fate::kIgnored, "", kLabel},
    FieldRule{"client_metadata", Fate::kIgnored, "", kLabel},
    FieldRule{"safety_identifier", Fate::kIgnored, "", kLabel},
    FieldRule{"request_id", Fate::kIgnored, "", kLabel},
    FieldRule{"response_format.json_schema.name", Fate::kIgnored, "", kLabel},
    FieldRule{"text.format.name", Fate::kIgnored, "", kLabel},
    FieldRule{"response_format.json_schema.strict", Fate::kIgnored, "", "a schema is always kept"},
    FieldRule{"text.format.strict", Fate::kIgnored, "", "a schema is always kept"},
    FieldRule{"max_tool_calls", Fate::kIgnored, "", "only of tools that the server would run"},
    FieldRule{"store", Fate::kIgnored, "", "only Responses are kept"},
    FieldRule{"service_tier", Fate::kIgnored, "", kSpeed},
    FieldRule{"speed", Fate::kIgnored, "", kSpeed},
    FieldRule{"inference_geo", Fate::kIgnored, "", "the server is where it is"},
    FieldRule{"betas", Fate::kIgnored, "", "what a preview adds is a field of its own"},
    FieldRule{"anthropic_beta", Fate::kIgnored, "", "what a preview adds is a field of its own"},
    FieldRule{"anthropic_version", Fate::kIgnored, "", "there is one version"},
    FieldRule{"api_key", Fate::kIgnored, "", "keys come in headers"},
    FieldRule{"stream_options.include_obfuscation", Fate::kIgnored, "", "adds padding only"},
    FieldRule{"reasoning_control", Fate::kIgnored, "", "the reasoning of every reply can be ended"},
    FieldRule{"early_stopping", Fate::kIgnored, "", kNoBeams},
    FieldRule{"dynatemp_exponent", Fate::kIgnored, "", "only of dynatemp_range, which is refused"},
    FieldRule{"mirostat_tau", Fate::kIgnored, "", "only of mirostat, which is refused"},
    FieldRule{"mirostat_eta", Fate::kIgnored, "", "only of mirostat, which is refused"},
    FieldRule{"guided_decoding_backend", Fate::kIgnored, "", "there is one"},
    FieldRule{"spaces_between_special_tokens", Fate::kIgnored, "", "special tokens are not shown"},
    FieldRule{"id_slot", Fate::kIgnored, "", kSpeed},
    FieldRule{"slot_id", Fate::kIgnored, "", kSpeed},
    FieldRule{"n_cache_reuse", Fate::kIgnored, "", kSpeed},
    FieldRule{"backend_sampling", Fate::kIgnored, "", kSpeed},
    FieldRule{"speculative.n_min", Fate::kIgnored, "", kSpeed},
    FieldRule{"speculative.n_max", Fate::kIgnored, "", kSpeed},
    FieldRule{"speculative.p_min", Fate::kIgnored, "", kSpeed},
    FieldRule{"draft_num_predict", Fate::kIgnored, "", kSpeed},
    FieldRule{"n_keep", Fate::kIgnored, "", kWholePrompt},
    FieldRule{"n_discard", Fate::kIgnored, "", kWholePrompt},
    FieldRule{"num_keep", Fate::kIgnored, "", kWholePrompt},
    FieldRule{"truncate", Fate::kIgnored, "", kWholePrompt},
    FieldRule{"shift", Fate::kIgnored, "", kWholePrompt},
    FieldRule{"thinking_forced_open", Fate::kIgnored, "", kByTemplate},
    FieldRule{"chat_format", Fate::kIgnored, "", kByTemplate},
    FieldRule{"generation_prompt", Fate::kIgnored, "", kByTemplate},
    FieldRule{"preserved_tokens", Fate::kIgnored, "", kByTemplate},
    FieldRule{"grammar_triggers", Fate::kIgnored, "", "only of grammar_lazy, which is refused"},
    FieldRule{"keep_alive", Fate::kIgnored, "", kOperators},
    FieldRule{"num_ctx", Fate::kIgnored, "", kOperators},
    FieldRule{"num_batch", Fate::kIgnored, "", kOperators},
    FieldRule{"num_gpu", Fate::kIgnored, "", kOperators},
    FieldRule{"main_gpu", Fate::kIgnored, "", kOperators},
    FieldRule{"low_vram", Fate::kIgnored, "", kOperators},
    FieldRule{"vocab_only", Fate::kIgnored, "", kOperators},
    FieldRule{"use_mmap", Fate::kIgnored, "", kOperators},
    FieldRule{"use_mlock", Fate::kIgnored, "", kOperators},
    FieldRule{"num_thread", Fate::kIgnored, "", kOperators},
    FieldRule{"numa", Fate::kIgnored, "", kOperators},
    FieldRule{"f16_kv", Fate::kIgnored, "", kOperators},
    FieldRule{"logits_all", Fate::kIgnored, "", kOperators},
    FieldRule{"embedding_only", Fate::kIgnored, "", kOperators},
    FieldRule{"num_gqa", Fate::kIgnored, "", kOperators},
};

const FieldRule* find_rule(std::string_view path) {
  static const auto kByName = [] {
    std::map<std::string_view, const FieldRule*> rules;
    for (const FieldRule& rule : kRules) rules.emplace(rule.name, &rule);
    return rules;
  }();
  constexpr std::string_view kOptions = "options.";
  if (path.starts_with(kOptions)) path.remove_prefix(kOptions.size());
  const auto found = kByName.find(path);
  return found == kByName.end() ? nullptr : found->second;
}

/// Whether `value` is one of the rule's neutral values; 1 and 1.0 are the same.
bool is_neutral(const Json& value, const FieldRule& rule) {
  const bool is_small = value.is_string() ? value.as_string().size() < 64 : value.size() < 2;
  if (!is_small) return false;
  const std::string text = value.is_number() ? show_number(value.as_double()) : value.dump();
  for (std::string_view rest = rule.neutral; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == text) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

/// Cut where it is long, and not inside of a character.
std::string shortened(const std::string& name) {
  std::size_t end = std::min(name.size(), kUnknownFieldBytes);
  while (end < name.size() && end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return end < name.size() ? name.substr(0, end) + "…" : name;
}

}  // namespace

std::span<const FieldRule> field_rules() {
  return kRules;
}

std::vector<std::string> unknown_fields_of(const Fields& body) {
  std::vector<std::string> names;
  std::set<std::string> known;
  std::size_t more = 0;
  body.visit_unread([&](const std::string& path, const Json& value) {
    const FieldRule* rule = find_rule(path);
    if (rule != nullptr && (rule->fate == Fate::kIgnored || is_neutral(value, *rule))) return;
    if (rule != nullptr && rule->fate == Fate::kRefused) {
      std::string message = "is not supported here";
      if (!rule->note.empty()) message += ": " + std::string(rule->note);
      refuse_unsupported(path, message);
    }
    if (!known.insert(path).second) return;
    if (names.size() < kMaxUnknownFields) {
      names.push_back(shortened(path));
    } else {
      ++more;
    }
  });
  if (more > 0) names.push_back("and " + std::to_string(more) + " more");
  return names;
}

Json unknown_fields_report(const std::vector<std::string>& names) {
  Json list = Json::array();
  for (const std::string& name : names) list.push_back(name);
  return Json{{"unknown_fields", std::move(list)}};
}

void append_unknown_fields(const std::vector<std::string>& names, std::string& object) {
  if (names.empty()) return;
  const std::size_t end = object.rfind('}');
  REPRISE_CHECK(end != std::string::npos && end > 0, "the answer is not a JSON object");
  const std::string before = object[object.find_last_not_of(" \n", end - 1)] == '{' ? "" : ",";
  object.insert(end, before + "\"reprise\":" + unknown_fields_report(names).dump());
}

}  // namespace reprise::protocol
