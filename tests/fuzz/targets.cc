#include "tests/fuzz/targets.h"

namespace reprise::fuzz {
namespace {

constexpr Target kTargets[] = {
    {"apply_template", fuzz_apply_template, "request"},
    {"chat", fuzz_chat, "request"},
    {"chat_template_file", fuzz_chat_template_file},
    {"completion", fuzz_completion, "request"},
    {"config", fuzz_config, "config"},
    {"count_tokens", fuzz_count_tokens, "request"},
    {"detokenize", fuzz_detokenize, "request"},
    {"embeddings", fuzz_embeddings, "request"},
    {"gbnf", fuzz_gbnf, "gbnf"},
    {"generation_config", fuzz_generation_config, "config"},
    {"gguf", fuzz_gguf, "gguf"},
    {"gguf_adapter", fuzz_gguf_adapter, "gguf"},
    {"gguf_tokenizer", fuzz_gguf_tokenizer, "gguf"},
    {"grown_gbnf", fuzz_grown_gbnf, {}, grown_gbnf},
    {"grown_jinja", fuzz_grown_jinja, {}, grown_jinja},
    {"grown_regex", fuzz_grown_regex, {}, grown_regex},
    {"grown_schema", fuzz_grown_schema, {}, grown_schema},
    {"http", fuzz_http, "http"},
    {"hub", fuzz_hub, "request"},
    {"infill", fuzz_infill, "request"},
    {"jinja_context", fuzz_jinja_context, "request"},
    {"jinja_source", fuzz_jinja_source, "jinja"},
    {"json", fuzz_json, "request"},
    {"keys", fuzz_keys},
    {"lark", fuzz_lark, "lark"},
    {"llama_completion", fuzz_llama_completion, "request"},
    {"messages", fuzz_messages, "request"},
    {"model_json", fuzz_model_json, "request"},
    {"ollama_chat", fuzz_ollama_chat, "request"},
    {"ollama_generate", fuzz_ollama_generate, "request"},
    {"packed_planes", fuzz_packed_planes},
    {"peft_adapter", fuzz_peft_adapter, "config"},
    {"quantization_config", fuzz_quantization_config, "config"},
    {"redis_answers", fuzz_redis_answers},
    {"regex", fuzz_regex, "regex"},
    {"reply", fuzz_reply, "reply"},
    {"reply_format", fuzz_reply_format, "reply"},
    {"reply_pattern", fuzz_reply_pattern, "regex"},
    {"responses", fuzz_responses, "request"},
    {"routes", fuzz_routes},
    {"safetensors", fuzz_safetensors, "request"},
    {"safetensors_index", fuzz_safetensors_index, "request"},
    {"schema", fuzz_schema, "schema"},
    {"sentencepiece", fuzz_sentencepiece},
    {"serve_config", fuzz_serve_config, "serve_config"},
    {"snapshot_folder", fuzz_snapshot_folder},
    {"snapshot_manifest", fuzz_snapshot_manifest},
    {"snapshot_record", fuzz_snapshot_record},
    {"snapshots", fuzz_snapshots, "request"},
    {"tokenize", fuzz_tokenize, "request"},
    {"tokenizer", fuzz_tokenizer, "tokenizer"},
    {"trace", fuzz_trace},
    {"words", fuzz_words},
};

}  // namespace

std::span<const Target> targets() {
  return kTargets;
}

const Target* find_target(std::string_view name) {
  for (const Target& target : kTargets) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

}  // namespace reprise::fuzz
