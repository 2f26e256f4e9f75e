#include "protocol/api/known_fields.h"

#include <algorithm>
#include <set>
#include <span>

namespace reprise::protocol {
namespace {

using KnownNames = std::set<std::string_view>;

void add_names(KnownNames& names, std::initializer_list<std::string_view> more) {
  names.insert(more.begin(), more.end());
}
void add_names(KnownNames& names, std::span<const char* const> more) {
  names.insert(more.begin(), more.end());
}

/// How tokens are drawn and what is done with the cache: every API takes these, Ollama in its options.
KnownNames generation_fields() {
  return {"model",
          "adapter",
          "n",
          "temperature",
          "top_k",
          "top_p",
          "min_p",
          "typical_p",
          "top_n_sigma",
          "repetition_penalty",
          "repeat_penalty",
          "repeat_last_n",
          "presence_penalty",
          "frequency_penalty",
          "seed",
          "xtc_probability",
          "xtc_threshold",
          "mirostat",
          "mirostat_tau",
          "mirostat_eta",
          "dry_multiplier",
          "dry_base",
          "dry_allowed_length",
          "dry_penalty_last_n",
          "dry_sequence_breakers",
          "logit_bias",
          "ignore_eos",
          "max_tokens",
          "min_tokens",
          "stop_token_ids",
          "include_stop_str_in_output",
          "truncate_prompt_tokens",
          "response_format",
          "json_schema",
          "grammar",
          "structured_outputs",
          "guided_json",
          "guided_regex",
          "guided_choice",
          "guided_grammar",
          "regex",
          "ebnf",
          "cache_prompt",
          "min_cache_tokens",
          "kv_budget",
          "kv_reuse",
          "thinking_token_budget",
          "thinking_budget",
          "thinking_budget_tokens",
          "reasoning_budget",
          "reasoning_budget_tokens",
          "prompt_cache_key",
          "prompt_cache_retention",
          "cache_salt",
          "priority",
          "reprise",
          "stream"};
}

/// Those that are refused by name where they ask for something (protocol/openai/unsupported.cc).
constexpr const char* kRefusedFields[] = {"audio",
                                          "prediction",
                                          "web_search_options",
                                          "functions",
                                          "function_call",
                                          "moderation",
                                          "modalities",
                                          "logits_processors",
                                          "use_beam_search",
                                          "length_penalty",
                                          "allowed_token_ids",
                                          "bad_words",
                                          "skip_special_tokens",
                                          "prompt_logprobs",
                                          "prompt_embeds",
                                          "chat_template",
                                          "documents",
                                          "mm_processor_kwargs",
                                          "lora_path",
                                          "token_healing",
                                          "grammar_lazy",
                                          "guided_whitespace_pattern",
                                          "reasoning_budget_message",
                                          "samplers",
                                          "dynatemp_range",
                                          "lora"};

/// Clients send them to OpenAI's servers and their like, and they ask for nothing that an answer has here.
constexpr const char* kOpenAiHabits[] = {"user",
                                         "store",
                                         "metadata",
                                         "service_tier",
                                         "safety_identifier",
                                         "verbosity",
                                         "request_id",
                                         "add_special_tokens",
                                         "spaces_between_special_tokens",
                                         "include_reasoning",
                                         "separate_reasoning",
                                         "stream_reasoning",
                                         "reasoning_control",
                                         "early_stopping",
                                         "guided_decoding_backend",
                                         "dynatemp_exponent",
                                         "stop_regex",
                                         "no_stop_trim",
                                         "return_tokens_as_token_ids"};

/// What llama-server's clients send with every request.
constexpr const char* kLlamaHabits[] = {"id_slot",
                                        "slot_id",
                                        "n_keep",
                                        "n_discard",
                                        "n_indent",
                                        "t_max_predict_ms",
                                        "t_max_prompt_ms",
                                        "image_data",
                                        "min_keep",
                                        "n_cache_reuse",
                                        "parse_tool_calls",
                                        "reasoning_format",
                                        "reasoning_in_content",
                                        "thinking_forced_open",
                                        "chat_format",
                                        "generation_prompt",
                                        "penalize_nl",
                                        "penalty_prompt",
                                        "tfs_z",
                                        "typ_p",
                                        "speculative.n_min",
                                        "speculative.n_max",
                                        "speculative.p_min",
                                        "system_prompt",
                                        "user",
                                        "preserved_tokens",
                                        "grammar_triggers",
                                        "api_key",
                                        "backend_sampling"};

/// Where and how long Ollama is to hold a model: the operator's here.
constexpr const char* kOllamaHabits[] = {"num_ctx",
                                         "num_keep",
                                         "num_batch",
                                         "num_gpu",
                                         "main_gpu",
                                         "low_vram",
                                         "vocab_only",
                                         "use_mmap",
                                         "use_mlock",
                                         "num_thread",
                                         "numa",
                                         "f16_kv",
                                         "logits_all",
                                         "embedding_only",
                                         "penalize_newline",
                                         "tfs_z",
                                         "num_gqa",
                                         "draft_num_predict",
                                         "rope_frequency_base",
                                         "rope_frequency_scale"};

void add_openai_names(KnownNames& names) {
  add_names(names, kRefusedFields);
  add_names(names, kOpenAiHabits);
  add_names(names, {"stop", "n_predict", "stream_options", "return_token_ids", "logprobs", "from_snapshot",
                    "echo", "suffix", "best_of", "reasoning"});
}

void add_chat_names(KnownNames& names) {
  add_openai_names(names);
  add_names(names, {"messages", "tools", "tool_choice", "parallel_tool_calls", "max_completion_tokens",
                    "top_logprobs", "chat_template_kwargs", "reasoning_effort", "add_generation_prompt",
                    "continue_final_message", "checkpoints"});
}

KnownNames known_names_of(FieldsOf api) {
  KnownNames names = generation_fields();
  switch (api) {
    case FieldsOf::kChat:
      add_chat_names(names);
      break;
    case FieldsOf::kCompletions:
      add_openai_names(names);
      add_names(names, {"prompt", "checkpoints"});
      break;
    case FieldsOf::kLlamaChat:
      add_chat_names(names);
      add_names(names, kLlamaHabits);
      add_names(names, {"return_progress", "timings_per_token", "verbose"});
      break;
    case FieldsOf::kLlama:
      add_names(names, kRefusedFields);
      add_names(names, kLlamaHabits);
      add_names(names, {"prompt", "stop", "n_predict", "n_probs", "n_cmpl", "return_tokens",
                        "response_fields", "return_progress", "timings_per_token", "post_sampling_probs",
                        "input_prefix", "input_suffix", "input_extra", "multimodal_data", "stream_options",
                        "echo", "suffix", "best_of", "verbose"});
      break;
    case FieldsOf::kOllama:
      names = {"model",   "messages", "prompt",       "suffix",   "system",     "raw",    "tools",
               "format",  "options",  "think",        "stream",   "keep_alive", "images", "template",
               "context", "logprobs", "top_logprobs", "truncate", "shift",      "reprise"};
      break;
    case FieldsOf::kOllamaOptions:
      add_names(names, kRefusedFields);
      add_names(names, kOllamaHabits);
      add_names(names, {"stop", "n_predict", "num_predict", "echo", "suffix", "best_of"});
      for (const std::string_view elsewhere : {"model", "stream", "reprise"}) names.erase(elsewhere);
      break;
    case FieldsOf::kMessages:
      add_names(names, {"messages",          "system",         "tools",
                        "tool_choice",       "thinking",       "stop_sequences",
                        "output_config",     "output_format",  "chat_template_kwargs",
                        "cache_control",     "mcp_servers",    "container",
                        "metadata",          "service_tier",   "betas",
                        "anthropic_version", "anthropic_beta", "context_management",
                        "inference_geo",     "speed"});
      break;
    case FieldsOf::kResponses:
      add_names(names, {"input",
                        "instructions",
                        "max_output_tokens",
                        "max_tool_calls",
                        "metadata",
                        "parallel_tool_calls",
                        "previous_response_id",
                        "reasoning",
                        "safety_identifier",
                        "text",
                        "tools",
                        "tool_choice",
                        "truncation",
                        "top_logprobs",
                        "user",
                        "background",
                        "conversation",
                        "prompt",
                        "store",
                        "include",
                        "service_tier",
                        "chat_template_kwargs",
                        "client_metadata",
                        "stop",
                        "n_predict",
                        "stream_options",
                        "context_management"});
      break;
  }
  return names;
}

const KnownNames& known_names(FieldsOf api) {
  constexpr std::size_t kApis = static_cast<std::size_t>(FieldsOf::kResponses) + 1;
  static const std::vector<KnownNames> kNames = [] {
    std::vector<KnownNames> all;
    for (std::size_t i = 0; i < kApis; ++i) all.push_back(known_names_of(static_cast<FieldsOf>(i)));
    return all;
  }();
  return kNames[static_cast<std::size_t>(api)];
}

/// Cut where it is long, and not inside of a character.
std::string_view beginning_of(std::string_view name) {
  std::size_t end = std::min(name.size(), kUnknownFieldBytes);
  while (end < name.size() && end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return name.substr(0, end);
}

}  // namespace

bool is_known_field(FieldsOf api, std::string_view name) {
  return known_names(api).count(name) != 0;
}

void note_unknown_fields(const Json& object, FieldsOf api, std::vector<std::string>& names,
                         std::string_view before) {
  std::size_t more = 0;
  for (const Json::Member& member : object.as_object()) {
    if (member.value.is_null() || is_known_field(api, member.key)) continue;
    if (names.size() >= kMostUnknownFields) {
      ++more;
      continue;
    }
    names.push_back(std::string(before) + std::string(beginning_of(member.key)));
    if (beginning_of(member.key).size() < member.key.size()) names.back() += "…";
  }
  if (more > 0) names.push_back("and " + std::to_string(more) + " more");
}

Json list_of_texts(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push_back(text);
  return list;
}

}  // namespace reprise::protocol
