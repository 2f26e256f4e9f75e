#include "protocol/llama/completion.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/json_text.h"
#include "base/utf8.h"
#include "protocol/api/api_error.h"
#include "protocol/api/common_fields.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/api/reply_text.h"
#include "protocol/llama/llama_dialect.h"

namespace reprise::protocol::llama {
namespace {

// -- bodies

constexpr std::size_t kMaxFieldPaths = 128;
constexpr std::size_t kMaxFiles = 256;
constexpr std::size_t kFileNameBytes = 4096;

std::string text_within(const Json& text, const std::string& path, const BodyLimits& limits) {
  if (text.as_string().size() > limits.prompt_bytes) {
    refuse_field(path, "too_long", "has more than " + std::to_string(limits.prompt_bytes) + " bytes");
  }
  return text.as_string();
}

/// Reads {"prompt_string": …}, optionally with an empty "multimodal_data".
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

/// Reads a prompt of token ids mixed with texts.
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

/// Reads one prompt, or several from an array without token ids of its own.
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
  if (given->size() > kMaxFieldPaths) {
    refuse_field("response_fields", "too_many", "has more than " + std::to_string(kMaxFieldPaths));
  }
  for (std::size_t i = 0; i < given->size(); ++i) {
    if (!(*given)[i].is_string()) refuse_kind(item_of("response_fields", i), "a string", (*given)[i]);
    paths.push_back((*given)[i].as_string());
  }
  return paths;
}

CompletionRequest read_all_but_prompt(const Fields& fields, const BodyLimits& limits) {
  CompletionRequest request{.asked = read_common(fields, limits, ApiFlavor::kLlamaServer)};
  GenerateRequest& generate = request.asked.generate;
  if (const auto n = fields.integer("n_cmpl", 1, limits.choices)) generate.n = static_cast<std::uint32_t>(*n);
  generate.report.settled = true;

  CompletionOptions& reply = request.reply;
  reply.n = generate.n;
  reply.stream = request.asked.stream;
  reply.return_tokens = fields.boolean_or("return_tokens", false);
  read_progress(fields, request.asked, reply.timings_per_token);
  reply.n_probs = static_cast<int>(fields.integer("n_probs", 0, limits.top_logprobs).value_or(0));
  reply.drawn_probs = fields.boolean_or("post_sampling_probs", false) && reply.n_probs > 0;
  if (reply.n_probs > 0) generate.sampling.logprobs = reply.n_probs;
  generate.rules.logprobs_of_draw = reply.drawn_probs;
  reply.response_fields = read_response_fields(fields);
  if (generate.max_tokens) reply.n_predict = *generate.max_tokens;
  reply.ignore_eos = generate.rules.ignore_eos;
  reply.stop = generate.rules.stop;
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
  if (given->size() > kMaxFiles) {
    refuse_field("input_extra", "too_many", "has more than " + std::to_string(kMaxFiles));
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

// -- effective settings

Json biases_of(const SamplingParams& sampling) {
  Json biases = Json::array();
  for (const LogitBias& one : sampling.logit_bias) {
    biases.push_back(Json{{"token", one.token},
                          {"bias", std::isinf(one.bias) ? Json() : Json(static_cast<double>(one.bias))}});
  }
  return biases;
}

Json list_of(const std::vector<std::string>& items) {
  Json list = Json::array();
  for (const std::string& item : items) list.push_back(item);
  return list;
}

/// Writes `sampling`, the effective parameters, under llama-server's names.
Json generation_settings(const SamplingParams& sampling, const CompletionOptions& asked) {
  return Json{{"n_predict", asked.n_predict},
              {"max_tokens", asked.n_predict},
              {"seed", static_cast<std::int64_t>(sampling.seed)},
              {"temperature", sampling.temperature},
              {"dynatemp_range", 0.0},
              {"dynatemp_exponent", 1.0},
              {"top_k", sampling.top_k},
              {"top_p", sampling.top_p},
              {"min_p", sampling.min_p},
              {"top_n_sigma", sampling.top_n_sigma > 0 ? sampling.top_n_sigma : -1.0},
              {"xtc_probability", sampling.xtc_probability},
              {"xtc_threshold", sampling.xtc_threshold},
              {"typical_p", sampling.typical_p},
              {"repeat_last_n", sampling.repetition_last_n > 0 ? sampling.repetition_last_n : -1},
              {"repeat_penalty", sampling.repetition_penalty},
              {"presence_penalty", sampling.presence_penalty},
              {"frequency_penalty", sampling.frequency_penalty},
              {"dry_multiplier", sampling.dry_multiplier},
              {"dry_base", sampling.dry_base},
              {"dry_allowed_length", sampling.dry_allowed_length},
              {"dry_penalty_last_n", sampling.dry_penalty_last_n},
              {"mirostat", 0},
              {"mirostat_tau", 5.0},
              {"mirostat_eta", 0.1},
              {"adaptive_target", -1.0},
              {"adaptive_decay", 0.9},
              {"stop", list_of(asked.stop)},
              {"n_keep", 0},
              {"n_discard", 0},
              {"ignore_eos", asked.ignore_eos},
              {"stream", asked.stream},
              {"logit_bias", biases_of(sampling)},
              {"n_probs", asked.n_probs},
              {"min_keep", 0},
              {"grammar", asked.grammar},
              {"timings_per_token", asked.timings_per_token},
              {"post_sampling_probs", asked.drawn_probs},
              {"lora", Json::array()}};
}

// -- replies

constexpr double kLowestLogprob = -9999.0;  // for impossible tokens; JSON has no -inf

Json bytes_of(std::string_view bytes) {
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  return list;
}

Json token_entry(TokenId id, const std::string& bytes, double logprob, bool drawn) {
  Json entry{{"id", id}, {"token", as_utf8(bytes)}, {"bytes", bytes_of(bytes)}};
  if (drawn) {
    entry["prob"] = std::exp(logprob);
  } else {
    entry["logprob"] = std::isfinite(logprob) ? logprob : kLowestLogprob;
  }
  return entry;
}

std::string_view stop_type_of(const Finished& finish) {
  if (finish.reason == FinishReason::kLength) return "limit";
  return finish.stop.empty() ? "eos" : "word";
}

Json ids_of(const std::vector<ReplyToken>& tokens) {
  Json ids = Json::array();
  for (const ReplyToken& token : tokens) ids.push_back(token.id);
  return ids;
}

Json timings_json(const Timings& timings) {
  std::string text;
  append_timings(text, timings);
  return *Json::parse(text);
}

/// Returns the value at a path such as "generation_settings/n_predict", or null.
const Json* at_path(const Json& whole, std::string_view path) {
  const Json* node = &whole;
  while (node != nullptr && !path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    node = node->is_object() ? node->find(path.substr(0, end)) : nullptr;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return node;
}

Json chosen_fields(Json whole, const std::vector<std::string>& paths) {
  if (paths.empty()) return whole;
  Json chosen = Json::object();
  for (const std::string& path : paths) {
    if (const Json* value = at_path(whole, path)) chosen[path] = *value;
  }
  return chosen;
}

class CompletionParts {
 public:
  explicit CompletionParts(const CompletionOptions& options);

  struct Choice {
    std::string text{};
    std::vector<ReplyToken> tokens{};  // stream: not yet sent
    std::uint32_t predicted = 0;
    bool has_new_line = false;
    std::optional<Finished> finish{};
  };
  struct PromptAccount {
    CacheReport cache{};
    std::shared_ptr<const Settled> settled{};
  };

  void admitted(const Admitted& event);
  void started(const Started& event);
  Choice& add(Delta& event);
  Choice& finished(const Finished& event);
  Choice& choice(std::uint32_t index);
  std::size_t size() const { return choices_.size(); }
  /// Returns the final object of a choice, reduced to the requested fields.
  Json account(std::uint32_t index, const Timings& timings, bool with_text) const;
  /// Appends [{"id":…,"token":…,"bytes":…,"logprob":…,"top_logprobs":[…]}].
  void append_probabilities(std::string& out, const std::vector<ReplyToken>& tokens) const;
  Timings timings_of_choice(std::uint32_t index) const;
  std::uint32_t prompt_tokens(std::uint32_t index) const;
  const CompletionOptions& options() const { return options_; }

 private:
  Json probabilities(const std::vector<ReplyToken>& tokens) const;

  const CompletionOptions options_;
  std::string model_;
  std::uint32_t context_ = 0;
  std::vector<Choice> choices_;
  std::vector<PromptAccount> prompts_;
  LiveTimings clock_;
};

class WholeCompletion final : public Reply {
 public:
  explicit WholeCompletion(const CompletionOptions& options) : parts_(options) {}
  void admitted(const Admitted& event, std::int64_t now, std::string& out) override;
  void started(const Started& event, std::string& out) override;
  void delta(Delta event, std::string& out) override;
  void finished(const Finished& event, std::string& out) override;
  void done(const Done& event, std::string& out) override;

 private:
  CompletionParts parts_;
};

class StreamedCompletion final : public StreamedReply {
 public:
  explicit StreamedCompletion(const CompletionOptions& options) : parts_(options) {}
  std::string_view content_type() const override;
  void admitted(const Admitted& event, std::int64_t now, std::string& out) override;
  void progress(const Progress& event, std::string& out) override;
  void started(const Started& event, std::string& out) override;
  void delta(Delta event, std::string& out) override;
  void finished(const Finished& event, std::string& out) override;
  void done(const Done& event, std::string& out) override;
  void keep_alive(std::string& out) override;
  void failed(const Error& error, std::string& out) override;

 private:
  CompletionParts parts_;
};

CompletionParts::CompletionParts(const CompletionOptions& options)
    : options_(options), choices_(options.n * options.prompts), prompts_(options.prompts) {}

void CompletionParts::admitted(const Admitted& event) {
  model_ = event.model;
  context_ = event.context;
}

void CompletionParts::started(const Started& event) {
  REPRISE_CHECK(event.prompt_index < prompts_.size(),
                "an engine event has the index of a prompt that the request does not have");
  prompts_[event.prompt_index] = {event.cache, event.settled};
  clock_.started(event);
}

CompletionParts::Choice& CompletionParts::choice(std::uint32_t index) {
  REPRISE_CHECK(index < choices_.size(),
                "an engine event has the index of a choice that the request does not have");
  return choices_[index];
}

CompletionParts::Choice& CompletionParts::add(Delta& event) {
  Choice& now = choice(event.choice);
  now.predicted += static_cast<std::uint32_t>(event.tokens.size());
  now.has_new_line = now.has_new_line || event.text.find('\n') != std::string::npos;
  for (ReplyToken& token : event.tokens) now.tokens.push_back(std::move(token));
  return now;
}

CompletionParts::Choice& CompletionParts::finished(const Finished& event) {
  Choice& now = choice(event.choice);
  now.finish = event;
  return now;
}

std::uint32_t CompletionParts::prompt_tokens(std::uint32_t index) const {
  return prompts_[index / options_.n].cache.prompt_tokens;
}

Timings CompletionParts::timings_of_choice(std::uint32_t index) const {
  Timings timings = clock_.now();
  const CacheReport& cache = prompts_[index / options_.n].cache;
  timings.cache_n = cache.restored_tokens;
  timings.prompt_n = cache.prompt_tokens - std::min(cache.restored_tokens, cache.prompt_tokens);
  timings.predicted_n = choices_[index].predicted;
  return timings;
}

Json CompletionParts::probabilities(const std::vector<ReplyToken>& tokens) const {
  Json list = Json::array();
  for (const ReplyToken& token : tokens) {
    Json entry =
        token_entry(token.id, token.bytes, token.logprob.value_or(kLowestLogprob), options_.drawn_probs);
    Json top = Json::array();
    for (const ReplyToken::Alternative& other : token.top) {
      top.push_back(token_entry(other.id, other.bytes, other.logprob, options_.drawn_probs));
    }
    entry[options_.drawn_probs ? "top_probs" : "top_logprobs"] = std::move(top);
    list.push_back(std::move(entry));
  }
  return list;
}

void CompletionParts::append_probabilities(std::string& out, const std::vector<ReplyToken>& tokens) const {
  probabilities(tokens).dump_to(out);
}

Json CompletionParts::account(std::uint32_t index, const Timings& timings, bool with_text) const {
  const Choice& now = choices_[index];
  const PromptAccount& prompt = prompts_[index / options_.n];
  const Finished finish = now.finish.value_or(Finished{.choice = index, .reason = FinishReason::kLength});
  const std::uint64_t length = std::uint64_t{prompt.cache.prompt_tokens} + now.predicted;
  Json whole{{"index", index},
             {"content", with_text ? now.text : std::string()},
             {"tokens", with_text && options_.return_tokens ? ids_of(now.tokens) : Json::array()},
             {"id_slot", -1},
             {"stop", true},
             {"model", model_},
             {"tokens_predicted", now.predicted},
             {"tokens_evaluated", prompt.cache.prompt_tokens},
             {"generation_settings",
              prompt.settled ? generation_settings(prompt.settled->sampling, options_) : Json::object()},
             {"prompt", prompt.settled ? as_utf8(prompt.settled->prompt_text) : std::string()},
             {"has_new_line", now.has_new_line},
             {"truncated", finish.reason == FinishReason::kLength && context_ > 0 && length >= context_},
             {"stop_type", stop_type_of(finish)},
             {"stopping_word", finish.stop},
             {"tokens_cached", static_cast<std::int64_t>(length)},
             {"timings", timings_json(timings)}};
  if (with_text && options_.n_probs > 0) whole["completion_probabilities"] = probabilities(now.tokens);
  Json chosen = chosen_fields(std::move(whole), options_.response_fields);
  if (!options_.unknown_fields.empty()) chosen["reprise"] = unknown_fields_report(options_.unknown_fields);
  return chosen;
}

// -- whole

void WholeCompletion::admitted(const Admitted& event, std::int64_t, std::string&) {
  parts_.admitted(event);
}
void WholeCompletion::started(const Started& event, std::string&) {
  parts_.started(event);
}
void WholeCompletion::delta(Delta event, std::string&) {
  parts_.add(event).text += event.text;
}
void WholeCompletion::finished(const Finished& event, std::string&) {
  parts_.finished(event);
}

void WholeCompletion::done(const Done& event, std::string& out) {
  const Timings all = timings_of(event.usage);
  const bool several = parts_.size() > 1;
  if (several) out += '[';
  for (std::uint32_t i = 0; i < parts_.size(); ++i) {
    if (i > 0) out += ',';
    Timings timings = parts_.timings_of_choice(i);
    timings.prompt_ms = all.prompt_ms;
    timings.predicted_ms = all.predicted_ms;
    parts_.account(i, timings, true).dump_to(out);
  }
  if (several) out += ']';
}

// -- as a stream

std::string_view StreamedCompletion::content_type() const {
  return kSseContentType;
}

void StreamedCompletion::admitted(const Admitted& event, std::int64_t, std::string&) {
  parts_.admitted(event);
}

void StreamedCompletion::progress(const Progress& event, std::string& out) {
  const Json progress{{"total", event.total},
                      {"cache", event.restored},
                      {"processed", event.processed},
                      {"time_ms", static_cast<std::int64_t>(event.ms)}};
  append_sse_data(out, Json{{"index", event.prompt_index * parts_.options().n},
                            {"content", ""},
                            {"tokens", Json::array()},
                            {"stop", false},
                            {"prompt_progress", progress}}
                           .dump());
}

void StreamedCompletion::started(const Started& event, std::string&) {
  parts_.started(event);
}

void StreamedCompletion::delta(Delta event, std::string& out) {
  CompletionParts::Choice& now = parts_.add(event);
  if (now.tokens.empty() && event.text.empty()) return;
  out += "data: {\"index\":";
  append_integer(out, event.choice);
  out += ",\"content\":";
  append_json_string(out, event.text);
  out += ",\"tokens\":";
  ids_of(now.tokens).dump_to(out);
  out += ",\"stop\":false,\"id_slot\":-1,\"tokens_predicted\":";
  append_integer(out, now.predicted);
  out += ",\"tokens_evaluated\":";
  append_integer(out, parts_.prompt_tokens(event.choice));
  if (parts_.options().n_probs > 0) {
    out += ",\"completion_probabilities\":";
    parts_.append_probabilities(out, now.tokens);
  }
  if (parts_.options().timings_per_token) {
    out += ",\"timings\":";
    append_timings(out, parts_.timings_of_choice(event.choice));
  }
  out += "}\n\n";
  now.tokens.clear();
}

void StreamedCompletion::finished(const Finished& event, std::string& out) {
  parts_.finished(event);
  append_sse_data(out, parts_.account(event.choice, parts_.timings_of_choice(event.choice), false).dump());
}

void StreamedCompletion::done(const Done&, std::string&) {}

void StreamedCompletion::keep_alive(std::string& out) {
  out += kSseKeepAlive;
}

void StreamedCompletion::failed(const Error& error, std::string& out) {
  append_sse_data(out, error_body(error).dump());
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

std::unique_ptr<Reply> whole_completion(const CompletionOptions& options) {
  return std::make_unique<WholeCompletion>(options);
}

std::unique_ptr<StreamedReply> streamed_completion(const CompletionOptions& options) {
  return std::make_unique<StreamedCompletion>(options);
}

Json default_settings(const ModelCard& card) {
  CompletionOptions nothing;
  if (card.max_tokens) nothing.n_predict = *card.max_tokens;
  Json settings = generation_settings(card.sampling, nothing);
  if (!card.fixed_seed) settings["seed"] = -1;
  return settings;
}

}  // namespace reprise::protocol::llama
