#include "tests/fuzz/targets.h"

namespace reprise::fuzz {
namespace {

constexpr Target kTargets[] = {
    {"apply_template", fuzz_apply_template},
    {"chat", fuzz_chat},
    {"chat_template_file", fuzz_chat_template_file},
    {"completion", fuzz_completion},
    {"config", fuzz_config},
    {"detokenize", fuzz_detokenize},
    {"generation_config", fuzz_generation_config},
    {"gguf", fuzz_gguf},
    {"gguf_tokenizer", fuzz_gguf_tokenizer},
    {"http", fuzz_http},
    {"jinja_context", fuzz_jinja_context},
    {"jinja_source", fuzz_jinja_source},
    {"json", fuzz_json},
    {"keys", fuzz_keys},
    {"model_json", fuzz_model_json},
    {"regex", fuzz_regex},
    {"reply", fuzz_reply},
    {"reply_format", fuzz_reply_format},
    {"routes", fuzz_routes},
    {"safetensors", fuzz_safetensors},
    {"safetensors_index", fuzz_safetensors_index},
    {"serve_config", fuzz_serve_config},
    {"tokenize", fuzz_tokenize},
    {"tokenizer", fuzz_tokenizer},
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
