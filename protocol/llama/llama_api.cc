// llama-server's API: its paths without /v1, its own completions, and its status pages.
//
//   /completion, /completions, /infill        completion.h
//   /chat/completions                         OpenAI's with additions (protocol/api/common_fields.h)
//   /tokenize, /detokenize, /apply-template, /chat/completions/input_tokens       token_requests.h
//   /props, /slots, /models                   status
//   /slots/{id}                               slots as named snapshots
#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "protocol/api/completions_reply.h"
#include "protocol/api/completions_request.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/api/questions.h"
#include "protocol/api/slot_records.h"
#include "protocol/api/snapshot_names.h"
#include "protocol/apis.h"
#include "protocol/chat/chat_format.h"
#include "protocol/llama/completion.h"
#include "protocol/llama/llama_dialect.h"
#include "protocol/llama/token_requests.h"

namespace reprise::protocol::llama {
namespace {

using RecordsPtr = std::shared_ptr<SlotRecords>;

// -- completions and chats

class CompletionCall final : public GenerationCall {
 public:
  CompletionCall(CompletionRequest request, SlotNote note)
      : GenerationCall(std::move(request.asked)),
        options_(std::move(request.reply)),
        note_(std::move(note)) {}
  std::unique_ptr<StreamedReply> stream(ReplyContext) override {
    return noted_stream(streamed_completion(options_), std::move(note_));
  }
  std::unique_ptr<Reply> whole(ReplyContext) override {
    return noted_whole(whole_completion(options_), std::move(note_));
  }

 private:
  const CompletionOptions options_;
  SlotNote note_;
};

using ReadCompletion = CompletionRequest (*)(const Json&, const BodyLimits&);
ParsedCall parse_completion(ReadCompletion read, const RecordsPtr& records, const ApiInput& input,
                            const BodyLimits& limits) {
  const Json body = parse_body(input.body, limits, BodyHolds::kTokenIds);
  return std::make_unique<CompletionCall>(read(body, limits), slot_note(records, body, input.tenant));
}

/// `verbose`: include the prompt even if the request does not ask for it.
ParsedCall parse_chat(bool verbose, const RecordsPtr& records, const ApiInput& input,
                      const BodyLimits& limits) {
  const Json body = parse_body(input.body, limits, BodyHolds::kText);
  TextRequest request = read_text_request(TextKind::kChat, body, limits, ApiFlavor::kLlamaServer);
  request.reply.verbose = request.reply.verbose || verbose;
  request.asked.generate.report.settled = request.reply.verbose;
  return text_call(std::move(request), slot_note(records, body, input.tenant));
}

/// {"id", "action": "reasoning_end"}: ends the reasoning of a running reply, identified by the ID its client
/// received.
ParsedCall parse_control(const ApiInput& input, const BodyLimits& limits) {
  const Json body = parse_body(input.body, limits, BodyHolds::kText);
  const Fields fields(body);
  const std::string* id = fields.string("id", limits.label_bytes);
  if (id == nullptr) refuse_field("id", "missing", "is required");
  const std::string* action = fields.string("action", limits.label_bytes);
  if (action == nullptr) refuse_field("action", "missing", "is required");
  if (*action != "reasoning_end") {
    refuse_field("action", "invalid_value", in_quotes(*action) + " is not 'reasoning_end'");
  }
  const auto end_reasoning = [id = *id,
                              tenant = std::string(input.tenant)](Service& service) -> Question::Answered {
    const std::string reply = id.substr(id.find_last_of("-_") + 1);  // without a prefix such as "chatcmpl-"
    if (service.end_reasoning(reply, tenant)) return Json{{"success", true}}.dump();
    return Error{ErrorKind::kNotFound, "id: no reply " + in_quotes(id) + " is being generated", "id"};
  };
  return answered_by(end_reasoning, unknown_fields_of(fields));
}

// -- text work

ParsedCall parse_tokenize(const ApiInput& input, const BodyLimits& limits) {
  std::vector<std::string> unknown;
  TokenizeRequest request = read_tokenize(input.body, limits, &unknown);
  const auto write = [pieces = request.with_pieces](const Tokenized& found) {
    return tokenize_body(found, pieces);
  };
  return ask_for_text(std::move(request), &Service::tokenize, write, std::move(unknown));
}

ParsedCall parse_detokenize(const ApiInput& input, const BodyLimits& limits) {
  std::vector<std::string> unknown;
  DetokenizeRequest request = read_detokenize(input.body, limits, &unknown);
  return ask_for_text(std::move(request), &Service::detokenize, detokenize_body, std::move(unknown));
}

/// `counts`: return the number of tokens instead of the text.
ParsedCall parse_template(bool counts, const ApiInput& input, const BodyLimits& limits) {
  std::vector<std::string> unknown;
  RenderRequest request = read_apply_template(input.body, limits, &unknown);
  if (counts) request.want_tokens = true;
  return ask_for_text(std::move(request), &Service::render, counts ? input_tokens_body : apply_template_body,
                      std::move(unknown));
}

// -- status pages
//
// A slot is a sequence that can run; --parallel sets their number. Busy slots report the lengths of prompt
// and reply, never text.

Json words_in(const std::vector<std::string>& words) {
  Json list = Json::array();
  for (const std::string& word : words) list.push_back(word);
  return list;
}

Error nothing_served() {
  return {.kind = ErrorKind::kUnavailable,
          .message = "no model is loaded",
          .retry_after = std::chrono::seconds(1)};
}

Json props_of(const ModelCard& card, bool has_slots) {
  const bool chats = card.chat != nullptr;
  return Json{{"default_generation_settings",
               Json{{"n_ctx", card.context}, {"params", default_settings(card)}, {"is_processing", false}}},
              {"total_slots", card.sequences},
              {"model_alias", card.id},
              {"model_path", card.file},
              {"modalities", Json{{"vision", false}, {"audio", false}}},
              {"endpoint_slots", has_slots},
              {"endpoint_props", false},
              {"endpoint_metrics", true},
              {"chat_template", chats ? as_utf8(card.chat->source()) : std::string()},
              {"chat_template_assumed", card.chat_is_assumed},
              {"bos_token", chats ? as_utf8(card.chat->bos()) : std::string()},
              {"eos_token", chats ? as_utf8(card.chat->eos()) : std::string()},
              {"build_info", "reprise"},
              {"is_sleeping", false}};
}

Json slot_of(std::uint32_t id, const ModelCard& card, const RunningRequest* running) {
  Json slot{
      {"id", id}, {"n_ctx", card.context}, {"speculative", false}, {"is_processing", running != nullptr}};
  if (running == nullptr) return slot;
  slot["id_task"] = static_cast<std::int64_t>(running->number);
  slot["n_prompt_tokens"] = running->prompt_tokens;
  slot["n_prompt_tokens_cache"] = running->reused_tokens;
  const std::uint32_t max = std::max(running->max_reply_tokens, running->reply_tokens);
  slot["next_token"] = Json::array();
  slot["next_token"].push_back(Json{{"has_next_token", running->reply_tokens < max},
                                    {"n_remain", max - running->reply_tokens},
                                    {"n_decoded", running->reply_tokens}});
  return slot;
}

/// Answers for the first model.
Question::Answered props(Service& service, bool has_slots) {
  const std::vector<ModelCard> cards = service.models();
  if (cards.empty()) return nothing_served();
  return props_of(cards.front(), has_slots).dump();
}

Question::Answered running_slots(Service& service, bool told) {
  if (!told) {
    return Error{ErrorKind::kNotImplemented,
                 "this server does not show its slots: it was started with --no-slots"};
  }
  const std::vector<ModelCard> cards = service.models();
  if (cards.empty()) return nothing_served();
  const std::vector<RunningRequest> running = service.running();
  Json slots = Json::array();
  for (std::uint32_t i = 0; i < cards.front().sequences; ++i) {
    slots.push_back(slot_of(i, cards.front(), i < running.size() ? &running[i] : nullptr));
  }
  return slots.dump();
}

/// OpenAI's list with llama-server's additions.
Question::Answered model_list(Service& service) {
  Json data = Json::array();
  for (const ModelCard& card : service.models()) {
    Json model = describe_model(card);
    const std::vector<std::string> itself{card.id};
    model["aliases"] = words_in(card.aliases.empty() ? itself : card.aliases);
    model["tags"] = words_in(card.tags);
    model["meta"] = Json{{"vocab_type", Json()}, {"n_vocab", card.vocab}, {"n_ctx_train", card.context}};
    data.push_back(std::move(model));
  }
  return Json{{"object", "list"}, {"data", std::move(data)}}.dump();
}

// -- POST /slots/{id}?action=save|restore|erase, on named snapshots (protocol/named_snapshots.h); the file
// name is the snapshot's name
//   save     names the tokens of the last request on the slot, and pins their states
//   restore  loads the states of a name to the device, and makes it the slot's contents
//   erase    clears the slot; a saved name stays

struct SlotTask {
  bool saves = false;  // false: restore
  std::shared_ptr<NamedSnapshots> names{};
  std::shared_ptr<SlotRecords> slots{};
  SlotKey key{};
  NamedSnapshot snapshot{};
};

std::size_t record_bytes(const SlotTask& task) {
  return to_bytes(task.key.owner, task.snapshot).size();
}

/// Completes the task once the states exist: saved ones are named and pinned, restored ones are on the
/// device.
class SlotReply final : public Reply {
 public:
  explicit SlotReply(SlotTask task) : task_(std::move(task)) {}

  void admitted(const Admitted& event, std::int64_t, std::string&) override {
    task_.snapshot.model = event.model;
    task_.snapshot.tokens = event.prompt_tokens;
  }
  void started(const Started& event, std::string&) override { prompt_ = event.prompt; }
  void delta(Delta, std::string&) override {}
  void finished(const Finished&, std::string&) override {}
  void done(const Done& event, std::string& out) override {
    const double ms = event.usage.timing.first_token_ms + event.usage.timing.decode_ms;
    const auto tokens = static_cast<std::int64_t>(task_.snapshot.tokens);
    const auto bytes = static_cast<std::int64_t>(record_bytes(task_));
    Json told{{"id_slot", task_.key.slot}, {"filename", task_.snapshot.name}};
    if (task_.saves) {
      const auto over = task_.names->put(task_.key.owner, std::move(task_.snapshot), std::time(nullptr));
      told["n_saved"] = over ? 0 : tokens;
      told["n_written"] = over ? 0 : bytes;
      if (over) told["problem"] = *over;
      told["timings"] = Json{{"save_ms", ms}};
    } else {
      SlotContents contents{.model = task_.snapshot.model};
      if (prompt_ != nullptr) contents.tokens = *prompt_;
      task_.slots->put(task_.key, std::move(contents));
      told["n_restored"] = tokens;
      told["n_read"] = bytes;
      told["timings"] = Json{{"restore_ms", ms}};
    }
    told.dump_to(out);
  }

 private:
  SlotTask task_;
  SharedTokens prompt_;
};

class SlotCall final : public GenerationCall {
 public:
  SlotCall(ApiRequest asked, SlotTask task) : GenerationCall(std::move(asked)), task_(std::move(task)) {}

  std::unique_ptr<StreamedReply> stream(ReplyContext) override { return nullptr; }  // never called
  std::unique_ptr<Reply> whole(ReplyContext) override {
    return std::make_unique<SlotReply>(std::move(task_));
  }

 private:
  SlotTask task_;
};

std::uint32_t slot_in(std::string_view path_end) {
  std::uint32_t slot = 0;
  const char* const end = path_end.data() + path_end.size();
  const auto [parsed, error] = std::from_chars(path_end.data(), end, slot);
  if (error != std::errc() || parsed != end || slot > SlotRecords::kMaxSlot) {
    refuse_field("id_slot", "invalid_value",
                 "must be a number of 0 to " + std::to_string(SlotRecords::kMaxSlot));
  }
  return slot;
}

/// Returns a request that computes or restores the prompt of a name; its one output token is dropped.
ApiRequest request_for(const NamedSnapshot& snapshot, const BodyLimits& limits) {
  const Json& body = snapshot.beginning;
  const TextKind kind = body.find("messages") != nullptr ? TextKind::kChat : TextKind::kCompletion;
  ApiRequest asked = read_text_request(kind, body, limits).asked;
  asked.generate.max_tokens = 1;
  asked.generate.cache.conversation = new_conversation(snapshot.name);
  return asked;
}

struct Slots {
  std::shared_ptr<NamedSnapshots> names{};
  std::shared_ptr<SlotRecords> records{};

  SlotTask task(bool saves, SlotKey key, NamedSnapshot snapshot) const {
    return {.saves = saves,
            .names = names,
            .slots = records,
            .key = std::move(key),
            .snapshot = std::move(snapshot)};
  }
};

ParsedCall save_slot(const Slots& slots, SlotKey key, const std::string& name,
                     std::vector<std::string> unknown, const BodyLimits& limits) {
  const std::optional<SlotContents> contents = slots.records->find(key);
  if (!contents)
    refuse_field("id_slot", "invalid_value", "no request on this slot has been answered since the start");
  const std::int64_t now = std::time(nullptr);
  NamedSnapshot snapshot{.name = name,
                         .model = contents->model,
                         .created = now,
                         .expires = now + NamedSnapshots::kMaxLife.count()};
  Json prompt = Json::array();
  for (const TokenId token : contents->tokens) prompt.push_back(token);
  snapshot.beginning = Json{{"prompt", std::move(prompt)}, {"model", contents->model}};
  if (!key.owner.salt.empty()) snapshot.beginning["cache_salt"] = key.owner.salt;
  if (const auto over = slots.names->limit_for(key.owner, snapshot, now)) {
    throw BadRequest(Error{.kind = ErrorKind::kInvalid,
                           .message = "filename: " + *over,
                           .param = "filename",
                           .code = "too_many_snapshots"});
  }
  snapshot.ticket = ticket_for(*slots.names, key.owner, name);
  ApiRequest asked = request_for(snapshot, limits);
  asked.unknown_fields = std::move(unknown);
  asked.generate.cache.pin = NamedSnapshots::kMaxLife;
  asked.generate.cache.pin_ticket = snapshot.ticket;
  asked.generate.cache.pin_moves = true;
  asked.generate.cache.disk_retention = NamedSnapshots::kMaxLife;
  return std::make_unique<SlotCall>(std::move(asked), slots.task(true, std::move(key), std::move(snapshot)));
}

ParsedCall restore_slot(const Slots& slots, SlotKey key, const std::string& name,
                        std::vector<std::string> unknown, const BodyLimits& limits) {
  std::optional<NamedSnapshot> found = slots.names->find(key.owner, name, std::time(nullptr));
  if (!found) {
    return Error{.kind = ErrorKind::kNotFound,
                 .message = "filename: there is no snapshot " + in_quotes(name),
                 .param = "filename",
                 .code = "snapshot_not_found"};
  }
  ApiRequest asked = request_for(*found, limits);
  asked.unknown_fields = std::move(unknown);
  keep_pin(*found, asked.generate);
  return std::make_unique<SlotCall>(std::move(asked), slots.task(false, std::move(key), std::move(*found)));
}

ParsedCall parse_slot(const Slots& slots, const ApiInput& input, const BodyLimits& limits) {
  SlotKey key{.owner = {.tenant = std::string(input.tenant), .salt = std::string(input.cache_salt)},
              .slot = slot_in(input.path_end)};
  const std::string action = query_value(input.query, "action").value_or("");
  if (action != "save" && action != "restore" && action != "erase")
    refuse_field("action", "invalid_value", "must be 'save', 'restore' or 'erase'");
  Json body = Json::object();
  if (action != "erase" || !input.body.empty()) body = parse_body(input.body, limits, BodyHolds::kText);
  const Fields fields(body);
  if (const std::string* salt = fields.string("cache_salt", limits.label_bytes)) key.owner.salt = *salt;
  const std::string* name = fields.string("filename", limits.label_bytes);
  static_cast<void>(fields.find("model"));  // accepted for llama-server's router; a name implies its model
  std::vector<std::string> unknown = unknown_fields_of(fields);
  if (action == "erase") {
    const Json told{{"id_slot", key.slot},
                    {"n_erased", static_cast<std::int64_t>(slots.records->erase(key))}};
    return answered_by([body = told.dump()](Service&) { return body; }, std::move(unknown));
  }
  if (name == nullptr) refuse_field("filename", "missing", "is required");
  check_snapshot_name("filename", *name);
  return action == "save" ? save_slot(slots, std::move(key), *name, std::move(unknown), limits)
                          : restore_slot(slots, std::move(key), *name, std::move(unknown), limits);
}

}  // namespace

std::vector<ApiRoute> routes(const ApiSettings& settings) {
  const auto at = [](Parse parse) { return endpoint_of(dialect(), std::move(parse)); };
  const auto completion_by = [&](ReadCompletion read) {
    return at([read, records = settings.slot_records](const ApiInput& input, const BodyLimits& limits) {
      return parse_completion(read, records, input, limits);
    });
  };
  const auto fact = [&](AnswerNow answer) {
    return at([answer](const ApiInput&, const BodyLimits&) -> ParsedCall { return answered_by(answer); });
  };
  const auto render = [&](bool counts) {
    return at([counts](const ApiInput& input, const BodyLimits& limits) {
      return parse_template(counts, input, limits);
    });
  };
  const auto completion = completion_by(read_completion);
  const auto chat = at([verbose = settings.verbose, records = settings.slot_records](
                           const ApiInput& input, const BodyLimits& limits) {
    return parse_chat(verbose, records, input, limits);
  });
  const auto count = render(true);
  const auto control = at(parse_control);
  const bool told = settings.slots;
  const auto all_props = fact([told](Service& service) { return props(service, told); });
  const auto all_slots = fact([told](Service& service) { return running_slots(service, told); });
  const auto one_slot =
      at([slots = Slots{settings.names, settings.slot_records}](
             const ApiInput& input, const BodyLimits& limits) { return parse_slot(slots, input, limits); });
  return {{.path = "/completion", .endpoint = completion, .generates = true},
          {.path = "/completions", .endpoint = completion, .generates = true},
          {.path = "/infill", .endpoint = completion_by(read_infill), .generates = true},
          {.path = "/chat/completions", .endpoint = chat, .generates = true},
          {.path = "/chat/completions/input_tokens", .endpoint = count},
          {.path = "/v1/chat/completions/input_tokens", .endpoint = count},
          {.path = "/chat/completions/control", .endpoint = control},
          {.path = "/v1/chat/completions/control", .endpoint = control},
          {.path = "/tokenize", .endpoint = at(parse_tokenize)},
          {.path = "/detokenize", .endpoint = at(parse_detokenize)},
          {.path = "/apply-template", .endpoint = render(false)},
          {.method = HttpMethod::kGet, .path = "/props", .endpoint = all_props},
          {.method = HttpMethod::kGet, .path = "/slots", .endpoint = all_slots, .for_operators = true},
          {.path = "/slots/{id}", .endpoint = one_slot, .generates = true},
          {.method = HttpMethod::kGet, .path = "/models", .endpoint = fact(model_list)}};
}

}  // namespace reprise::protocol::llama
