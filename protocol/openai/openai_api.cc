// OpenAI's API: chat completions, completions, embeddings and models. Also named snapshots to continue from
// (protocol/named_snapshots.h):
//   GET    /v1/snapshots          the caller's own
//   POST   /v1/snapshots          {"name": NAME, "messages" or "prompt": ..., "ttl": SECONDS, "pin": false}
//   GET    /v1/snapshots/{name}
//   DELETE /v1/snapshots/{name}
// A request continues from a snapshot with "from_snapshot": NAME (protocol/api/snapshot_names.h). GET and
// DELETE take the salt from the query or a header.
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>

#include "base/base64.h"
#include "base/json_text.h"
#include "protocol/api/completions_reply.h"
#include "protocol/api/completions_request.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/api/questions.h"
#include "protocol/api/slot_records.h"
#include "protocol/api/snapshot_names.h"
#include "protocol/apis.h"
#include "protocol/chat/call_constraint.h"

namespace reprise::protocol::openai {
namespace {

// -- chats and completions

ParsedCall parse_text(TextKind kind, NamedSnapshots& names, const std::shared_ptr<SlotRecords>& slots,
                      const ApiInput& input, const BodyLimits& limits) {
  const BodyHolds holds = kind == TextKind::kChat ? BodyHolds::kText : BodyHolds::kTokenIds;
  const Continued continued =
      with_beginning(parse_body(input.body, limits, holds), kind, names, input.tenant);
  TextRequest request = read_text_request(kind, continued.body, limits);
  if (continued.from) keep_pin(*continued.from, request.asked.generate);
  return text_call(std::move(request), slot_note(slots, continued.body, input.tenant));
}

// -- embeddings: the last hidden state of each input, pooled and normalized
//
// input: a text, a list of token ids, or an array of either. encoding_format: float or base64 (little-endian
// f32). dimensions: keeps that many leading values and normalizes again. Extensions: pooling (last or mean)
// and normalize (default true).

struct EmbeddingForm {
  bool base64 = false;
  bool normalize = true;
  std::uint32_t dimensions = 0;  // 0: all
  std::size_t inputs = 1;
};

void normalize(std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  const double length = std::sqrt(squares);
  if (length == 0) return;
  for (float& value : values) value = static_cast<float>(value / length);
}

std::string bytes_of(const std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(values.size() * sizeof(float), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

class EmbeddingReply final : public Reply {
 public:
  explicit EmbeddingReply(const EmbeddingForm& form) : form_(form), values_(form.inputs) {}

  void admitted(const Admitted& event, std::int64_t, std::string&) override { model_ = event.model; }
  void started(const Started&, std::string&) override {}
  void delta(Delta, std::string&) override {}
  void finished(const Finished&, std::string&) override {}
  void embedded(Embedded event, std::string&) override {
    REPRISE_CHECK(event.prompt_index < values_.size(),
                  "an engine event has the index of an input that the request does not have");
    std::vector<float>& values = values_[event.prompt_index];
    values = std::move(event.values);
    if (form_.dimensions > 0 && form_.dimensions < values.size()) values.resize(form_.dimensions);
    if (form_.normalize) normalize(values);
  }
  void done(const Done& event, std::string& out) override {
    out += "{\"object\":\"list\",\"data\":[";
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (i > 0) out += ',';
      out += "{\"object\":\"embedding\",\"index\":";
      append_integer(out, static_cast<std::int64_t>(i));
      out += ",\"embedding\":";
      append_values(values_[i], out);
      out += '}';
    }
    out += "],\"model\":";
    append_json_string(out, model_);
    out += ",\"usage\":{\"prompt_tokens\":";
    append_integer(out, event.usage.prompt_tokens);
    out += ",\"total_tokens\":";
    append_integer(out, event.usage.prompt_tokens);
    out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
    append_integer(out, event.usage.cache.restored_tokens);
    out += "}},\"reprise\":";
    append_reprise(out, event.usage);
    out += '}';
  }

 private:
  void append_values(const std::vector<float>& values, std::string& out) const {
    if (form_.base64) {
      append_json_string(out, to_base64(bytes_of(values)));
      return;
    }
    out += '[';
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out += ',';
      append_json_double(out, double{values[i]}, false);
    }
    out += ']';
  }

  const EmbeddingForm form_;
  std::string model_;
  std::vector<std::vector<float>> values_;
};

class EmbeddingCall final : public GenerationCall {
 public:
  EmbeddingCall(ApiRequest asked, const EmbeddingForm& form)
      : GenerationCall(std::move(asked)), form_(form) {}

  std::unique_ptr<StreamedReply> stream(ReplyContext) override { return nullptr; }  // parsing refuses it
  std::unique_ptr<Reply> whole(ReplyContext) override { return std::make_unique<EmbeddingReply>(form_); }

 private:
  const EmbeddingForm form_;
};

/// Reads a field with two valid values, the first being the default. Returns true for the second.
bool is_second(const Fields& fields, const char* name, std::string_view first, std::string_view second) {
  const std::string* word = fields.string(name, 64);
  if (word == nullptr || *word == first) return false;
  if (*word != second) {
    refuse_field(name, "invalid_value",
                 in_quotes(*word) + " is not one of " + std::string(first) + ", " + std::string(second));
  }
  return true;
}

ParsedCall embedding_call(const Json& body, const BodyLimits& limits) {
  const Fields fields(body);
  ApiRequest asked;
  read_basics(fields, limits, asked);
  GenerateRequest& generate = asked.generate;
  if (asked.stream) refuse_unsupported("stream", "there is nothing to be streamed");
  if (generate.n != 1) refuse_unsupported("n", "is not supported here");
  const Json* input = fields.find("input");
  if (input == nullptr) refuse_field("input", "missing", "is required");
  std::vector<Prompt> prompts = read_prompts(*input, "input", limits);
  EmbeddingForm form{.inputs = prompts.size()};
  form.base64 = is_second(fields, "encoding_format", "float", "base64");
  form.normalize = fields.boolean_or("normalize", true);
  form.dimensions = static_cast<std::uint32_t>(fields.integer("dimensions", 1, 1 << 20).value_or(0));
  generate.embedding = EmbeddingRequest{
      .pooling = is_second(fields, "pooling", "last", "mean") ? Pooling::kMean : Pooling::kLast,
      .dimensions = form.dimensions};
  generate.max_tokens = 1;
  generate.prompt = std::move(prompts.front());
  prompts.erase(prompts.begin());
  asked.further_prompts = std::move(prompts);
  asked.unknown_fields = unknown_fields_of(fields);
  return std::make_unique<EmbeddingCall>(std::move(asked), form);
}

// -- models

// Codex uses these instead of its own instructions, which are written for other models.
constexpr const char* kInstructions =
    "You are a coding agent in a terminal, working in the user's folder. Read the files that matter before "
    "you change "
    "them. Make the changes with the tools that you have, keep them small and in the style of the code "
    "around them, and "
    "run what checks there are. Go on until the task is done, and then say in a few words what you did. "
    "Never undo work "
    "of the user's that you were not asked to touch. If something cannot be done, say so and why.";
constexpr std::int64_t kToolOutputTokens = 10'000;  // tool output beyond this is truncated

/// Patches use a custom tool with a grammar if calls of the model's format can be constrained.
Json patch_tool(const ModelCard& card) {
  const bool held = card.chat != nullptr && free_calls(card.chat->reply_format(), Json::array()).has_value();
  return held ? Json("freeform") : Json();
}

/// Describes a model to Codex, which reads `models` rather than `data`, and accepts a list only if every
/// entry has all its fields.
Json describe_for_codex(const ModelCard& card) {
  return Json{{"id", card.id},
              {"name", card.id},
              {"model", card.id},
              {"slug", card.id},
              {"display_name", card.id},
              {"description", card.architecture},
              {"supported_reasoning_levels", Json::array()},
              {"shell_type", "shell_command"},
              {"visibility", card.chat != nullptr ? "list" : "hide"},
              {"supported_in_api", true},
              {"priority", 0},
              {"upgrade", nullptr},
              {"base_instructions", kInstructions},
              {"model_messages", Json{{"instructions_template", kInstructions}}},
              {"supports_reasoning_summaries", false},
              {"support_verbosity", false},
              {"default_verbosity", nullptr},
              {"apply_patch_tool_type", patch_tool(card)},
              {"truncation_policy", Json{{"mode", "tokens"}, {"limit", kToolOutputTokens}}},
              {"supports_parallel_tool_calls", true},
              {"context_window", card.context},
              {"experimental_supported_tools", Json::array()},
              {"input_modalities", Json(Json::Array{Json("text")})}};
}

/// {"object":"list","data":[…],"models":[…]}: all models twice, the second time in Codex's format.
Question::Answered model_list(Service& service) {
  Json data = Json::array();
  Json for_codex = Json::array();
  for (const ModelCard& card : service.models()) {
    data.push_back(describe_model(card));
    for_codex.push_back(describe_for_codex(card));
  }
  return Json{{"object", "list"}, {"data", std::move(data)}, {"models", std::move(for_codex)}}.dump();
}

Question::Answered one_model(Service& service, const std::string& id) {
  const std::vector<ModelCard> cards = service.models();
  const ModelCard* found = id.empty() ? nullptr : card_named(cards, id);
  if (found != nullptr) return describe_model(*found).dump();
  std::vector<std::string> served;
  for (const ModelCard& card : cards) served.push_back(card.id);
  return Error{ErrorKind::kUnknownModel, no_such_model(id, served), "model"};
}

/// GET: all models, or the one named in the path.
ParsedCall parse_models(const ApiInput& input, const BodyLimits&) {
  if (input.path_end.empty()) return answered_by(model_list);
  return answered_by([id = std::string(input.path_end)](Service& service) { return one_model(service, id); });
}

// -- snapshots

constexpr std::int64_t kUsualLife = 24 * 3600;

Json shown(const NamedSnapshot& snapshot) {
  return Json{{"object", "snapshot"},      {"name", snapshot.name},       {"model", snapshot.model},
              {"tokens", snapshot.tokens}, {"created", snapshot.created}, {"expires", snapshot.expires},
              {"pin", snapshot.pinned}};
}

struct Naming {
  std::shared_ptr<NamedSnapshots> names{};
  NameOwner owner{};
  NamedSnapshot snapshot{};
};

/// Stores the name once the prompt has been computed.
class NamedReply final : public Reply {
 public:
  explicit NamedReply(Naming naming) : naming_(std::move(naming)) {}

  void admitted(const Admitted& event, std::int64_t, std::string&) override {
    naming_.snapshot.model = event.model;
    naming_.snapshot.tokens = event.prompt_tokens;
  }
  void started(const Started&, std::string&) override {}
  void delta(Delta, std::string&) override {}
  void finished(const Finished&, std::string&) override {}
  void done(const Done& event, std::string& out) override {
    Json told = shown(naming_.snapshot);
    told["restored_tokens"] = event.usage.cache.restored_tokens;
    told["prefilled_tokens"] = event.usage.cache.prefilled_tokens;
    told["pinned_tokens"] = event.usage.cache.pinned_tokens;
    if (!event.usage.pin_problem.empty()) told["pin_problem"] = event.usage.pin_problem;
    if (!event.usage.unknown_fields.empty())
      told["reprise"] = unknown_fields_report(event.usage.unknown_fields);
    const auto over = naming_.names->put(naming_.owner, std::move(naming_.snapshot), std::time(nullptr));
    told["kept"] = !over.has_value();
    if (over) told["problem"] = *over;
    told.dump_to(out);
  }

 private:
  Naming naming_;
};

class NamedCall final : public GenerationCall {
 public:
  NamedCall(ApiRequest asked, Naming naming) : GenerationCall(std::move(asked)), naming_(std::move(naming)) {}

  std::unique_ptr<StreamedReply> stream(ReplyContext) override { return nullptr; }  // never called
  std::unique_ptr<Reply> whole(ReplyContext) override {
    return std::make_unique<NamedReply>(std::move(naming_));
  }

 private:
  Naming naming_;
};

ParsedCall parse_naming(const std::shared_ptr<NamedSnapshots>& names, const ApiInput& input,
                        const BodyLimits& limits) {
  Json body = parse_body(input.body, limits, BodyHolds::kTokenIds);
  const TextKind kind = body.find("messages") != nullptr ? TextKind::kChat : TextKind::kCompletion;
  body = with_beginning(std::move(body), kind, *names, input.tenant).body;
  const Fields fields(body);
  NamedSnapshot snapshot{.name = read_snapshot_name(fields, "name")};
  snapshot.created = std::time(nullptr);
  snapshot.expires =
      snapshot.created + fields.integer("ttl", 1, NamedSnapshots::kMaxLife.count()).value_or(kUsualLife);
  for (const char* only_whole : {"stream", "n"}) {
    if (fields.find(only_whole) != nullptr)
      refuse_field(only_whole, "invalid_value", "cannot be used when a snapshot is named");
  }
  ApiRequest asked = read_text_fields(kind, fields, limits).asked;
  if (!asked.further_prompts.empty())
    refuse_field("prompt", "too_many", "must be a single prompt: a name belongs to one prompt");
  asked.generate.max_tokens = 1;
  NameOwner owner{.tenant = std::string(input.tenant), .salt = asked.cache_salt};
  snapshot.pinned = fields.boolean("pin").value_or(true);
  const std::chrono::seconds life(snapshot.expires - snapshot.created);
  if (snapshot.pinned) {
    snapshot.ticket = ticket_for(*names, owner, snapshot.name);
    asked.generate.cache.pin = life;
    asked.generate.cache.pin_ticket = snapshot.ticket;
    asked.generate.cache.pin_moves = true;
  }
  asked.generate.cache.disk_retention = life;
  asked.generate.cache.conversation = new_conversation(snapshot.name);
  for (const char* member : kBeginningMembers) {
    const Json* value = body.find(member);
    if (value != nullptr && !value->is_null()) snapshot.beginning[member] = *value;
  }
  asked.unknown_fields = unknown_fields_of(fields);
  if (const auto over = names->limit_for(owner, snapshot, snapshot.created)) {
    throw BadRequest(Error{.kind = ErrorKind::kInvalid,
                           .message = "name: " + *over,
                           .param = "name",
                           .code = "too_many_snapshots"});
  }
  return std::make_unique<NamedCall>(
      std::move(asked), Naming{.names = names, .owner = std::move(owner), .snapshot = std::move(snapshot)});
}

/// GET of all or one, DELETE of one.
ParsedCall parse_names(const std::shared_ptr<NamedSnapshots>& names, const ApiInput& input) {
  const NameOwner owner{.tenant = std::string(input.tenant), .salt = std::string(input.cache_salt)};
  const std::string name(input.path_end);
  return answered_by([names, owner, name, drops = input.deletes](Service&) -> Question::Answered {
    const std::int64_t now = std::time(nullptr);
    if (drops) {
      if (!names->drop(owner, name, now)) return no_such_snapshot(name);
      return Json{{"object", "snapshot"}, {"name", name}, {"deleted", true}}.dump();
    }
    if (name.empty()) {
      Json data = Json::array();
      for (const NamedSnapshot& one : names->all(owner, now)) data.push_back(shown(one));
      return Json{{"object", "list"}, {"data", std::move(data)}}.dump();
    }
    const std::optional<NamedSnapshot> found = names->find(owner, name, now);
    if (!found) return no_such_snapshot(name);
    return shown(*found).dump();
  });
}

}  // namespace

std::vector<ApiRoute> routes(const ApiSettings& settings) {
  const auto at = [](Parse parse) { return endpoint_of(openai_dialect(), std::move(parse)); };
  const auto text = [&](TextKind kind) {
    return at([kind, names = settings.names, slots = settings.slot_records](const ApiInput& input,
                                                                            const BodyLimits& limits) {
      return parse_text(kind, *names, slots, input, limits);
    });
  };
  const auto models = at(parse_models);
  const auto names = at([names = settings.names](const ApiInput& input, const BodyLimits&) {
    return parse_names(names, input);
  });
  const auto naming = at([names = settings.names](const ApiInput& input, const BodyLimits& limits) {
    return parse_naming(names, input, limits);
  });
  const auto embeddings = at([](const ApiInput& input, const BodyLimits& limits) {
    return embedding_call(parse_body(input.body, limits, BodyHolds::kTokenIds), limits);
  });
  return {{.path = "/v1/chat/completions", .endpoint = text(TextKind::kChat), .generates = true},
          {.path = "/v1/completions", .endpoint = text(TextKind::kCompletion), .generates = true},
          {.path = "/v1/embeddings", .endpoint = embeddings, .generates = true},
          {.method = HttpMethod::kGet, .path = "/v1/models", .endpoint = models},
          {.method = HttpMethod::kGet, .path = "/v1/models/{id}", .endpoint = models},
          {.method = HttpMethod::kGet, .path = "/v1/snapshots", .endpoint = names},
          {.path = "/v1/snapshots", .endpoint = naming, .generates = true},
          {.method = HttpMethod::kGetDelete, .path = "/v1/snapshots/{name}", .endpoint = names}};
}

}  // namespace reprise::protocol::openai
