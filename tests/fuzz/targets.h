#pragma once
// What is fuzzed: for each parser a function that takes any bytes and comes back.
//
// A target may refuse its input in the ways that its parser's header names. Everything else is a finding: a
// sanitizer's complaint, another exception, a CHECK, a hang, memory out of proportion. CHECKs also stand for
// what must hold of an input that was taken, such as that it reads the same when it is written again.
//
// A target keeps nothing from one input to the next, so that an input fails again when it is run alone.
//
// Threading: one thread.

#include <span>
#include <string_view>

namespace reprise::fuzz {

struct Target {
  std::string_view name;  // of its corpus as well
  void (*run)(std::string_view input);
};

std::span<const Target> targets();
const Target* find_target(std::string_view name);  // null: no such target

// http_target.cc
void fuzz_http(std::string_view input);
void fuzz_routes(std::string_view input);
void fuzz_keys(std::string_view input);
// json_target.cc
void fuzz_json(std::string_view input);
void fuzz_model_json(std::string_view input);
// request_targets.cc
void fuzz_chat(std::string_view input);
void fuzz_completion(std::string_view input);
void fuzz_tokenize(std::string_view input);
void fuzz_detokenize(std::string_view input);
void fuzz_apply_template(std::string_view input);
// jinja_targets.cc
void fuzz_jinja_source(std::string_view input);
void fuzz_jinja_context(std::string_view input);
void fuzz_chat_template_file(std::string_view input);
// reply_targets.cc
void fuzz_reply(std::string_view input);
void fuzz_reply_format(std::string_view input);
// gguf_targets.cc
void fuzz_gguf(std::string_view input);
void fuzz_gguf_tokenizer(std::string_view input);
// safetensors_targets.cc
void fuzz_safetensors(std::string_view input);
void fuzz_safetensors_index(std::string_view input);
// config_targets.cc
void fuzz_config(std::string_view input);
void fuzz_generation_config(std::string_view input);
// tokenizer_targets.cc
void fuzz_tokenizer(std::string_view input);
void fuzz_regex(std::string_view input);
void fuzz_words(std::string_view input);
// command_targets.cc
void fuzz_serve_config(std::string_view input);
void fuzz_trace(std::string_view input);

}  // namespace reprise::fuzz
