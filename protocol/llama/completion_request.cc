#include "protocol/llama/completion_request.h"

#include <algorithm>

#include "protocol/api/api_error.h"
#include "protocol/api/body.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/openai/request.h"

namespace reprise::protocol::llama {
namespace {

constexpr std::size_t kMostFieldPaths = 128;
constexpr std::size_t kMostFiles = 256;
constexpr std::size_t kFileNameBytes = 4096;

std::string text_within(const Json& text, const std::string& path, const BodyLimits& limits) {
  if (text.as_string().size() > limits.prompt_bytes) {
    refuse_field(path, "too_long", "has more than " + std::to_string(limits.prompt_bytes) + " bytes");
  }
  return text.as_string();
}

/// {"prompt_string": …}: with media it would have "multimodal_data" besides.
std::string text_of_object(const Json& object, const std::string& path, const BodyLimits& limits) {
  const Fields fields(object, path);
  const Json* media = fields.find("multimodal_data");
  if (media != nullptr && !(media->is_array() && media->size() == 0)) {
    refuse_unsupported(fields.path_of("multimodal_data"), "is not supported: this server takes text");
  }
  const std::string* text = fields.string("prompt_string", limits.prompt_bytes);
  if (text == nullptr) refuse_field(fields.path_of("prompt_string"), "missing", "is required");
  return *text;
}

/// Ids with texts between them.
PromptParts mixed_parts(const Json::Array& items, const std::string& path, const BodyLimits& limits) {
  PromptParts mixed;
  Json::Array ids;
  const auto end_ids = [&] {
    if (!ids.empty()) mixed.parts.emplace_back(read_token_list(ids, path, limits));
    ids.clear();
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].is_string()) {
      end_ids();
      mixed.parts.emplace_back(text_within(items[i], item_of(path, i), limits));
    } else if (items[i].is_int()) {
      ids.push_back(items[i]);
    } else {
      refuse_kind(item_of(path, i), "a token id or a text", items[i]);
    }
  }
  end_ids();
  return mixed;
}

Prompt one_prompt(const Json& given, const std::string& path, const BodyLimits& limits) {
  if (given.is_string()) return text_within(given, path, limits);
  if (given.is_object()) return text_of_object(given, path, limits);
  if (!given.is_array()) refuse_kind(path, "a string or an array of token ids", given);
  const Json::Array& items = given.as_array();
  if (items.empty()) refuse_field(path, "invalid_value", "must not be empty");
  const auto is_text = [](const Json& item) { return item.is_string(); };
  if (std::any_of(items.begin(), items.end(), is_text)) return mixed_parts(items, path, limits);
  return read_token_list(items, path, limits);
}

/// An array without token ids of its own is one of prompts.
std::vector<Prompt> all_prompts(const Json& given, const BodyLimits& limits) {
  const auto is_number = [](const Json& item) { return item.is_number(); };
  const bool several = given.is_array() && given.size() > 0 &&
                       std::none_of(given.as_array().begin(), given.as_array().end(), is_number);
  std::vector<Prompt> prompts;
  if (!several) {
    prompts.push_back(one_prompt(given, "prompt", limits));
    return prompts;
  }
  if (given.size() > limits.prompts) {
    refuse_field("prompt", "too_many",
                 std::to_string(given.size()) + " prompts, more than " + std::to_string(limits.prompts));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    prompts.push_back(one_prompt(given.as_array()[i], item_of("prompt", i), limits));
  }
  return prompts;
}

std::vector<std::string> read_response_fields(const Fields& fields) {
  std::vector<std::string> paths;
  const Json::Array* given = fields.array("response_fields");
  if (given == nullptr) return paths;
  if (given->size() > kMostFieldPaths) {
    refuse_field("response_fields", "too_many", "has more than " + std::to_string(kMostFieldPaths));
  }
  for (std::size_t i = 0; i < given->size(); ++i) {
    if (!(*given)[i].is_string()) refuse_kind(item_of("response_fields", i), "a string", (*given)[i]);
    paths.push_back((*given)[i].as_string());
  }
  return paths;
}

CompletionRequest read_all_but_prompt(const Fields& fields, const BodyLimits& limits) {
  CompletionRequest request{.asked =
                                openai::read_common(fields, limits, openai::Manners::kLlamaServer).asked};
  GenerateRequest& generate = request.asked.generate;
  if (const auto n = fields.integer("n_cmpl", 1, limits.choices)) generate.n = static_cast<std::uint32_t>(*n);
  generate.want_settled = true;

  CompletionOptions& reply = request.reply;
  reply.n = generate.n;
  reply.stream = request.asked.stream;
  reply.return_tokens = fields.boolean_or("return_tokens", false);
  openai::read_progress(fields, request.asked, reply.timings_per_token);
  reply.n_probs = static_cast<int>(fields.integer("n_probs", 0, limits.top_logprobs).value_or(0));
  reply.drawn_probs = fields.boolean_or("post_sampling_probs", false) && reply.n_probs > 0;
  if (reply.n_probs > 0) generate.sampling.logprobs = reply.n_probs;
  generate.logprobs_of_draw = reply.drawn_probs;
  reply.response_fields = read_response_fields(fields);
  if (generate.max_tokens) reply.n_predict = *generate.max_tokens;
  reply.ignore_eos = generate.ignore_eos;
  reply.stop = generate.stop;
  if (const Json* grammar = fields.find("grammar")) reply.grammar = grammar->as_string();
  return request;
}

void note_unknown_fields(const Fields& fields, CompletionRequest& request) {
  request.asked.unknown_fields = unknown_fields_of(fields);
  request.reply.unknown_fields = request.asked.unknown_fields;
}

std::string text_field(const Fields& fields, const char* name, const BodyLimits& limits) {
  const std::string* text = fields.string(name, limits.prompt_bytes);
  return text == nullptr ? std::string() : *text;
}

std::vector<InfillPrompt::File> read_files(const Fields& fields, const BodyLimits& limits) {
  std::vector<InfillPrompt::File> files;
  const Json::Array* given = fields.array("input_extra");
  if (given == nullptr) return files;
  if (given->size() > kMostFiles) {
    refuse_field("input_extra", "too_many", "has more than " + std::to_string(kMostFiles));
  }
  for (std::size_t i = 0; i < given->size(); ++i) {
    const std::string path = item_of("input_extra", i);
    if (!(*given)[i].is_object()) refuse_kind(path, "an object", (*given)[i]);
    const Fields file((*given)[i], path);
    const std::string* name = file.string("filename", kFileNameBytes);
    const std::string* text = file.string("text", limits.prompt_bytes);
    if (text == nullptr) refuse_field(file.path_of("text"), "missing", "is required");
    files.push_back({.name = name == nullptr ? std::string() : *name, .text = *text});
  }
  return files;
}

}  // namespace

CompletionRequest read_completion(const Json& body, const BodyLimits& limits) {
  const Fields fields(body);
  CompletionRequest request = read_all_but_prompt(fields, limits);
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) refuse_field("prompt", "missing", "is required");
  std::vector<Prompt> prompts = all_prompts(*prompt, limits);
  request.reply.prompts = static_cast<std::uint32_t>(prompts.size());
  request.asked.generate.prompt = std::move(prompts.front());
  prompts.erase(prompts.begin());
  request.asked.further_prompts = std::move(prompts);
  note_unknown_fields(fields, request);
  return request;
}

CompletionRequest read_infill(const Json& body, const BodyLimits& limits) {
  const Fields fields(body);
  CompletionRequest request = read_all_but_prompt(fields, limits);
  for (const char* name : {"input_prefix", "input_suffix"}) {
    if (fields.find(name) == nullptr) refuse_field(name, "missing", "is required");
  }
  request.asked.generate.prompt = InfillPrompt{.prefix = text_field(fields, "input_prefix", limits),
                                               .suffix = text_field(fields, "input_suffix", limits),
                                               .opening = text_field(fields, "prompt", limits),
                                               .files = read_files(fields, limits),
                                               .field = "input_prefix"};
  note_unknown_fields(fields, request);
  return request;
}

}  // namespace reprise::protocol::llama
