#include "protocol/llama/slot_api.h"

#include <charconv>
#include <chrono>
#include <ctime>
#include <utility>

#include "protocol/api/body.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/api/query.h"
#include "protocol/llama/llama_dialect.h"
#include "protocol/openai/request.h"
#include "protocol/openai/snapshot_api.h"

namespace reprise::protocol::llama {
namespace {

using openai::SlotBook;
using openai::SlotContents;
using openai::SlotKey;

struct SlotTask {
  bool saves = false;  // else it restores
  std::shared_ptr<NamedSnapshots> names{};
  std::shared_ptr<SlotBook> slots{};
  SlotKey key{};
  NamedSnapshot snapshot{};
};

std::size_t record_bytes(const SlotTask& task) {
  return to_bytes(task.key.owner, task.snapshot).size();
}

/// What is told when the states are there: those that were saved are named and pinned, those that were restored are on the
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

  std::unique_ptr<StreamedReply> stream(ReplyContext) override { return nullptr; }  // never asked for
  std::unique_ptr<Reply> whole(ReplyContext) override {
    return std::make_unique<SlotReply>(std::move(task_));
  }

 private:
  SlotTask task_;
};

class ErasedQuestion final : public Question {
 public:
  ErasedQuestion(std::uint32_t slot, std::size_t tokens) : slot_(slot), tokens_(tokens) {}
  runtime::Task<Answered> answer(Service&) override {
    co_return Json{{"id_slot", slot_}, {"n_erased", static_cast<std::int64_t>(tokens_)}}.dump();
  }

 private:
  const std::uint32_t slot_;
  const std::size_t tokens_;
};

std::uint32_t slot_in(std::string_view path_end) {
  std::uint32_t slot = 0;
  const char* const end = path_end.data() + path_end.size();
  const auto [behind, error] = std::from_chars(path_end.data(), end, slot);
  if (error != std::errc() || behind != end || slot > SlotBook::kMaxSlot) {
    refuse_field("id_slot", "invalid_value",
                 "must be a number of 0 to " + std::to_string(SlotBook::kMaxSlot));
  }
  return slot;
}

/// A request that computes the prompt of a name, or restores it, and tells nothing of its one token.
ApiRequest request_for(const NamedSnapshot& snapshot, const BodyLimits& limits) {
  const Json& body = snapshot.beginning;
  openai::TextRequest request = body.find("messages") != nullptr
                                    ? openai::read_chat_request(body, limits)
                                    : openai::read_completion_request(body, limits);
  request.asked.generate.max_tokens = 1;
  request.asked.generate.conversation = openai::new_conversation(snapshot.name);
  return std::move(request.asked);
}

class SlotEndpoint final : public Endpoint {
 public:
  SlotEndpoint(std::shared_ptr<NamedSnapshots> names, std::shared_ptr<SlotBook> slots)
      : names_(std::move(names)), slots_(std::move(slots)) {}

  const Dialect& dialect() const override { return llama::dialect(); }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
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
    static_cast<void>(fields.find("model"));  // as llama-server's router takes it: a name knows its model
    std::vector<std::string> unknown = unknown_fields_of(fields);
    if (action == "erase") {
      auto question = std::make_unique<ErasedQuestion>(key.slot, slots_->erase(key));
      question->unknown_fields = std::move(unknown);
      return question;
    }
    if (name == nullptr) refuse_field("filename", "missing", "is required");
    openai::check_snapshot_name("filename", *name);
    return action == "save" ? save(std::move(key), *name, std::move(unknown), limits)
                            : restore(std::move(key), *name, std::move(unknown), limits);
  }

 private:
  ParsedCall save(SlotKey key, const std::string& name, std::vector<std::string> unknown,
                  const BodyLimits& limits) const {
    const std::optional<SlotContents> contents = slots_->find(key);
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
    if (const auto over = names_->limit_for(key.owner, snapshot, now)) {
      throw BadRequest(
          ApiError{.message = "filename: " + *over, .code = "too_many_snapshots", .param = "filename"});
    }
    snapshot.ticket = openai::ticket_for(*names_, key.owner, name);
    ApiRequest asked = request_for(snapshot, limits);
    asked.unknown_fields = std::move(unknown);
    asked.generate.pin = NamedSnapshots::kMaxLife;
    asked.generate.pin_ticket = snapshot.ticket;
    asked.generate.pin_moves = true;
    asked.generate.disk_retention = NamedSnapshots::kMaxLife;
    return std::make_unique<SlotCall>(std::move(asked), task(true, std::move(key), std::move(snapshot)));
  }

  ParsedCall restore(SlotKey key, const std::string& name, std::vector<std::string> unknown,
                     const BodyLimits& limits) const {
    std::optional<NamedSnapshot> found = names_->find(key.owner, name, std::time(nullptr));
    if (!found) {
      return ApiError{.status = 404,
                      .message = "filename: there is no snapshot " + in_quotes(name),
                      .code = "snapshot_not_found",
                      .param = "filename"};
    }
    ApiRequest asked = request_for(*found, limits);
    asked.unknown_fields = std::move(unknown);
    openai::Continued{.from = *found}.pin(asked.generate);
    return std::make_unique<SlotCall>(std::move(asked), task(false, std::move(key), std::move(*found)));
  }

  SlotTask task(bool saves, SlotKey key, NamedSnapshot snapshot) const {
    return {.saves = saves,
            .names = names_,
            .slots = slots_,
            .key = std::move(key),
            .snapshot = std::move(snapshot)};
  }

  const std::shared_ptr<NamedSnapshots> names_;
  const std::shared_ptr<SlotBook> slots_;
};

}  // namespace

std::shared_ptr<const Endpoint> slot_endpoint(std::shared_ptr<NamedSnapshots> names,
                                              std::shared_ptr<openai::SlotBook> slots) {
  return std::make_shared<SlotEndpoint>(std::move(names), std::move(slots));
}

}  // namespace reprise::protocol::llama
