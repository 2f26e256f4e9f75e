#pragma once
// Fuzz targets: for each parser, a function that takes any bytes and returns whether the parser accepted
// them.
//
// A target may refuse input in the ways that its parser's header documents. Anything else is a finding: a
// sanitizer report, another exception, a CHECK, a hang, excessive memory. CHECKs also test invariants of
// accepted input, for example that it reads the same after being written.
//
// A target keeps no state between inputs, so that a finding can be reproduced alone.
//
// Some targets have a grower (grower.h), which turns a few bytes into a text of up to 1 MiB. The oracle
// (oracle.h) bounds time, memory and stack of a run.

#include <ostream>
#include <span>
#include <string>
#include <string_view>

namespace reprise::fuzz {

struct Target {
  std::string_view name;  // also names its corpus
  bool (*run)(std::string_view input);
  std::string_view dictionary{};                          // dictionaries/NAME.dict; empty: none
  std::string (*grow)(std::string_view input) = nullptr;  // makes the input of `run`; null: none

  friend void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }
};

std::span<const Target> targets();
const Target* find_target(std::string_view name);  // null: no such target

// http_target.cc
bool fuzz_http(std::string_view input);
bool fuzz_routes(std::string_view input);
bool fuzz_keys(std::string_view input);
// json_target.cc
bool fuzz_json(std::string_view input);
bool fuzz_model_json(std::string_view input);
// request_targets.cc
bool fuzz_chat(std::string_view input);
bool fuzz_completion(std::string_view input);
bool fuzz_tokenize(std::string_view input);
bool fuzz_detokenize(std::string_view input);
bool fuzz_apply_template(std::string_view input);
// jinja_targets.cc
bool fuzz_jinja_source(std::string_view input);
bool fuzz_jinja_context(std::string_view input);
bool fuzz_chat_template_file(std::string_view input);
// reply_targets.cc
bool fuzz_reply(std::string_view input);
bool fuzz_reply_format(std::string_view input);
// grammar_targets.cc
bool fuzz_gbnf(std::string_view input);
bool fuzz_lark(std::string_view input);
bool fuzz_reply_pattern(std::string_view input);
bool fuzz_schema(std::string_view input);
// gguf_targets.cc
bool fuzz_gguf(std::string_view input);
bool fuzz_gguf_tokenizer(std::string_view input);
// safetensors_targets.cc
bool fuzz_safetensors(std::string_view input);
bool fuzz_safetensors_index(std::string_view input);
// config_targets.cc
bool fuzz_config(std::string_view input);
bool fuzz_generation_config(std::string_view input);
bool fuzz_quantization_config(std::string_view input);
// tokenizer_targets.cc
bool fuzz_tokenizer(std::string_view input);
bool fuzz_regex(std::string_view input);
bool fuzz_words(std::string_view input);
bool fuzz_sentencepiece(std::string_view input);
// growth_targets.cc
bool fuzz_grown_regex(std::string_view text);
bool fuzz_grown_gbnf(std::string_view text);
bool fuzz_grown_schema(std::string_view text);
bool fuzz_grown_jinja(std::string_view text);
std::string grown_regex(std::string_view input);
std::string grown_gbnf(std::string_view input);
std::string grown_schema(std::string_view input);
std::string grown_jinja(std::string_view input);
// endpoint_targets.cc
bool fuzz_messages(std::string_view input);
bool fuzz_count_tokens(std::string_view input);
bool fuzz_responses(std::string_view input);
bool fuzz_ollama_chat(std::string_view input);
bool fuzz_ollama_generate(std::string_view input);
bool fuzz_llama_completion(std::string_view input);
bool fuzz_infill(std::string_view input);
bool fuzz_snapshots(std::string_view input);
bool fuzz_embeddings(std::string_view input);
// adapter_targets.cc
bool fuzz_peft_adapter(std::string_view input);
bool fuzz_gguf_adapter(std::string_view input);
// snapshot_targets.cc
bool fuzz_snapshot_record(std::string_view input);
bool fuzz_snapshot_manifest(std::string_view input);
bool fuzz_snapshot_folder(std::string_view input);
bool fuzz_packed_planes(std::string_view input);
bool fuzz_redis_answers(std::string_view input);
// command_targets.cc
bool fuzz_hub(std::string_view input);
bool fuzz_serve_config(std::string_view input);
bool fuzz_trace(std::string_view input);

}  // namespace reprise::fuzz
