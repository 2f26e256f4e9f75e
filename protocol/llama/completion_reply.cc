#include "protocol/llama/completion_reply.h"

#include <algorithm>
#include <cmath>

#include "base/json_text.h"
#include "base/utf8.h"
#include "protocol/api/event_text.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/lossy_text.h"
#include "protocol/llama/generation_settings.h"
#include "protocol/llama/llama_dialect.h"

namespace reprise::protocol::llama {
namespace {

constexpr double kLowestLogprob = -9999.0;  // for a token that cannot be: JSON has no -inf

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

/// "generation_settings/n_predict" in the whole; null: nothing there.
const Json* at_path(const Json& whole, std::string_view path) {
  const Json* place = &whole;
  while (place != nullptr && !path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    place = place->is_object() ? place->find(path.substr(0, end)) : nullptr;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return place;
}

Json chosen_fields(Json whole, const std::vector<std::string>& paths) {
  if (paths.empty()) return whole;
  Json chosen = Json::object();
  for (const std::string& path : paths) {
    if (const Json* value = at_path(whole, path)) chosen[path] = *value;
  }
  return chosen;
}

}  // namespace

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

// -- in one piece

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

void StreamedCompletion::failed(const ApiError& error, std::string& out) {
  append_sse_data(out, error_body(error).dump());
}

}  // namespace reprise::protocol::llama
