#include "tests/fuzz/targets.h"

namespace reprise::fuzz {
namespace {

constexpr Target kTargets[] = {
    {"apply_template", fuzz_apply_template, "request"},
    {"chat", fuzz_chat, "request"},
    {"chat_template_file", fuzz_chat_template_file},
    {"completion", fuzz_completion, "request"},
    {"config", fuzz_config, "config"},
    {"detokenize", fuzz_detokenize, "request"},
    {"gbnf", fuzz_gbnf, "gbnf"},
    {"generation_config", fuzz_generation_config, "config"},
    {"gguf", fuzz_gguf, "gguf"},
    {"gguf_tokenizer", fuzz_gguf_tokenizer, "gguf"},
    {"http", fuzz_http, "http"},
    {"jinja_context", fuzz_jinja_context, "request"},
    {"jinja_source", fuzz_jinja_source, "jinja"},
    {"json", fuzz_json, "request"},
    {"keys", fuzz_keys},
    {"lark", fuzz_lark, "lark"},
    {"model_json", fuzz_model_json, "request"},
    {"regex", fuzz_regex, "regex"},
    {"reply", fuzz_reply, "reply"},
    {"reply_format", fuzz_reply_format, "reply"},
    {"reply_pattern", fuzz_reply_pattern, "regex"},
    {"routes", fuzz_routes},
    {"safetensors", fuzz_safetensors, "request"},
    {"safetensors_index", fuzz_safetensors_index, "request"},
    {"schema", fuzz_schema, "schema"},
    {"serve_config", fuzz_serve_config, "serve_config"},
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
