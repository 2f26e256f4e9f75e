#include "protocol/openai/snapshot_api.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>

#include "protocol/api/body.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/openai/openai_api.h"

namespace reprise::protocol::openai {
namespace {

using runtime::Task;

constexpr std::size_t kLongestName = 128;
constexpr std::int64_t kUsualLife = 24 * 3600;
/// Members of a body that make its prompt.
constexpr const char* kOfBeginning[] = {"messages",         "tools",     "chat_template_kwargs",
                                        "reasoning_effort", "prompt",    "model",
                                        "adapter",          "cache_salt"};

Json shown(const NamedSnapshot& snapshot) {
  return Json{{"object", "snapshot"},      {"name", snapshot.name},       {"model", snapshot.model},
              {"tokens", snapshot.tokens}, {"created", snapshot.created}, {"expires", snapshot.expires},
              {"pin", snapshot.pinned}};
}

std::string read_name(const Fields& fields, const char* field) {
  const std::string* name = fields.string(field, kLongestName);
  if (name == nullptr) refuse_field(field, "missing", "is required");
  check_snapshot_name(field, *name);
  return *name;
}

/// The limit of its length is the request's own, for its readers to hold.
NameOwner owner_in(const Json& body, std::string_view tenant) {
  const std::string* salt = body.find_string("cache_salt");
  return {.tenant = std::string(tenant), .salt = salt == nullptr ? std::string() : *salt};
}

ApiError no_such(std::string_view name) {
  return {.status = 404,
          .message = "there is no snapshot " + in_quotes(name),
          .code = "snapshot_not_found",
          .param = "from_snapshot"};
}

/// A name and where it is going to be kept.
struct Naming {
  std::shared_ptr<NamedSnapshots> names{};
  NameOwner owner{};
  NamedSnapshot snapshot{};
};

/// What is told when the prompt has been computed: its name is good from then on.
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

  std::unique_ptr<StreamedReply> stream(ReplyContext) override { return nullptr; }  // never asked for
  std::unique_ptr<Reply> whole(ReplyContext) override {
    return std::make_unique<NamedReply>(std::move(naming_));
  }

 private:
  Naming naming_;
};

class NameEndpoint final : public Endpoint {
 public:
  explicit NameEndpoint(std::shared_ptr<NamedSnapshots> names) : names_(std::move(names)) {}
  const Dialect& dialect() const override { return *dialect_; }

  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    Json body = parse_body(input.body, limits, BodyHolds::kTokenIds);
    const bool chats = body.is_object() && body.find("messages") != nullptr;
    const TextKind kind = chats ? TextKind::kChat : TextKind::kCompletion;
    const Continued continued = with_beginning(std::move(body), kind, *names_, input.tenant);
    body = continued.body;
    const Fields fields(body);
    NamedSnapshot snapshot{.name = read_name(fields, "name")};
    snapshot.created = std::time(nullptr);
    snapshot.expires =
        snapshot.created + fields.integer("ttl", 1, NamedSnapshots::kMaxLife.count()).value_or(kUsualLife);
    for (const char* only_whole : {"stream", "n"}) {
      if (fields.find(only_whole) != nullptr)
        refuse_field(only_whole, "invalid_value", "cannot be used when a snapshot is named");
    }
    TextRequest request = chats ? read_chat(fields, limits) : read_completion(fields, limits);
    if (!request.asked.further_prompts.empty())
      refuse_field("prompt", "too_many", "must be a single prompt: a name belongs to one prompt");
    request.asked.generate.max_tokens = 1;
    NameOwner owner{.tenant = std::string(input.tenant), .salt = request.asked.cache_salt};
    snapshot.pinned = fields.boolean("pin").value_or(true);
    const std::chrono::seconds life(snapshot.expires - snapshot.created);
    if (snapshot.pinned) {
      snapshot.ticket = ticket_for(*names_, owner, snapshot.name);
      request.asked.generate.pin = life;
      request.asked.generate.pin_ticket = snapshot.ticket;
      request.asked.generate.pin_moves = true;
    }
    request.asked.generate.disk_retention = life;
    request.asked.generate.conversation = new_conversation(snapshot.name);
    for (const char* member : kOfBeginning) {
      const Json* value = body.find(member);
      if (value != nullptr && !value->is_null()) snapshot.beginning[member] = *value;
    }
    request.asked.unknown_fields = unknown_fields_of(fields);
    if (const auto over = names_->limit_for(owner, snapshot, snapshot.created)) {
      throw BadRequest(ApiError{.message = "name: " + *over, .code = "too_many_snapshots", .param = "name"});
    }
    return std::make_unique<NamedCall>(
        std::move(request.asked),
        Naming{.names = names_, .owner = std::move(owner), .snapshot = std::move(snapshot)});
  }

 private:
  const std::shared_ptr<NamedSnapshots> names_;
  const std::shared_ptr<const Dialect> dialect_ = openai::dialect();
};

enum class NamesAction { kAll, kOne, kDrop };

class NamesQuestion final : public Question {
 public:
  NamesQuestion(NamesAction action, std::shared_ptr<NamedSnapshots> names, NameOwner owner, std::string name)
      : action_(action), names_(std::move(names)), owner_(std::move(owner)), name_(std::move(name)) {}

  Task<Answered> answer(Service&) override {
    const std::int64_t now = std::time(nullptr);
    if (action_ == NamesAction::kAll) {
      Json data = Json::array();
      for (const NamedSnapshot& one : names_->all(owner_, now)) data.push_back(shown(one));
      co_return Json{{"object", "list"}, {"data", std::move(data)}}.dump();
    }
    if (action_ == NamesAction::kDrop) {
      if (!names_->drop(owner_, name_, now)) co_return no_such(name_);
      co_return Json{{"object", "snapshot"}, {"name", name_}, {"deleted", true}}.dump();
    }
    const std::optional<NamedSnapshot> found = names_->find(owner_, name_, now);
    if (!found) co_return no_such(name_);
    co_return shown(*found).dump();
  }

 private:
  const NamesAction action_;
  const std::shared_ptr<NamedSnapshots> names_;
  const NameOwner owner_;
  const std::string name_;
};

class NamesEndpoint final : public Endpoint {
 public:
  NamesEndpoint(NamesAction action, std::shared_ptr<NamedSnapshots> names)
      : action_(action), names_(std::move(names)) {}
  const Dialect& dialect() const override { return *dialect_; }
  ParsedCall parse(const ApiInput& input, const BodyLimits&) const override {
    return std::make_unique<NamesQuestion>(
        input.deletes ? NamesAction::kDrop : action_, names_,
        NameOwner{.tenant = std::string(input.tenant), .salt = std::string(input.cache_salt)},
        std::string(input.path_end));
  }

 private:
  const NamesAction action_;
  const std::shared_ptr<NamedSnapshots> names_;
  const std::shared_ptr<const Dialect> dialect_ = openai::dialect();
};

/// One prompt behind the other.
Json joined(const Json& beginning, const Json* more) {
  if (more == nullptr) return beginning;
  if (beginning.is_string() && more->is_string()) return beginning.as_string() + more->as_string();
  if (beginning.is_array() && more->is_array()) {
    Json both = beginning;
    for (const Json& one : more->as_array()) both.push_back(one);
    return both;
  }
  refuse_field("prompt", "invalid_value",
               "must be of the snapshot's kind: text for text, token ids for token ids");
}

}  // namespace

void check_snapshot_name(std::string_view field, std::string_view name) {
  const std::string said(field);
  if (name.empty()) refuse_field(said, "missing", "is required");
  if (name.size() > kLongestName)
    refuse_field(said, "too_long", "may have " + std::to_string(kLongestName) + " bytes");
  for (const char c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '_' || c == '.';
    if (!plain) refuse_field(said, "invalid_value", "may have letters, digits, '-', '_' and '.' alone");
  }
}

std::string new_conversation(const std::string& name) {
  static std::atomic<std::uint64_t> last{0};  // relaxed: hands out numbers
  return "snapshot " + name + " " + std::to_string(last.fetch_add(1, std::memory_order_relaxed));
}

SharedPinTicket ticket_for(NamedSnapshots& names, const NameOwner& owner, const std::string& name) {
  const auto same = names.find(owner, name, std::time(nullptr));
  if (same && same->ticket != nullptr) return same->ticket;
  return std::make_shared<const PinTicket>(PinTicket{.tenant = owner.tenant});
}

void Continued::pin(GenerateRequest& request) const {
  if (!from || from->ticket == nullptr) return;
  const std::int64_t left = from->expires - std::time(nullptr);
  request.pin = std::chrono::seconds(std::max<std::int64_t>(left, 0));
  request.pin_ticket = from->ticket;
  request.pin_tokens = from->tokens;
}

Continued with_beginning(Json body, TextKind kind, NamedSnapshots& names, std::string_view tenant) {
  if (!body.is_object() || body.find("from_snapshot") == nullptr) return {std::move(body)};
  const Json sent = body;  // the body changes while this is read
  const Fields fields(sent);
  if (fields.find("from_snapshot") == nullptr) return {std::move(body)};  // null
  const std::string name = read_name(fields, "from_snapshot");
  auto from = names.find(owner_in(body, tenant), name, std::time(nullptr));
  if (!from) throw BadRequest(no_such(name));
  const char* text = kind == TextKind::kChat ? "messages" : "prompt";
  const Json* beginning = from->beginning.find(text);
  if (beginning == nullptr) {
    refuse_field("from_snapshot", "invalid_value",
                 kind == TextKind::kChat ? "this snapshot is of a prompt, not of a chat"
                                         : "this snapshot is of a chat, not of a prompt");
  }
  const Json* more = fields.find(text);
  if (kind == TextKind::kChat && more != nullptr && !more->is_array())
    refuse_kind("messages", "an array", *more);
  Json whole = joined(*beginning, more);
  for (const char* member : kOfBeginning) {
    if (std::string_view(member) == text) continue;
    const Json* named = from->beginning.find(member);
    const Json* given = fields.find(member);
    if (given != nullptr && (named == nullptr || given->dump() != named->dump())) {
      refuse_field(member, "invalid_value", "must be the same as in the snapshot, or left out");
    }
    if (named != nullptr) body[member] = *named;
  }
  const bool has_key = fields.find("prompt_cache_key") != nullptr;
  body[text] = std::move(whole);
  body.erase("from_snapshot");  // it has been read
  if (!has_key) body["prompt_cache_key"] = new_conversation(name);
  return {.body = std::move(body), .from = std::move(from)};
}

std::vector<ApiRoute> snapshot_routes(const std::shared_ptr<NamedSnapshots>& names) {
  const auto asks = [&](NamesAction action) { return std::make_shared<NamesEndpoint>(action, names); };
  return {{.method = HttpMethod::kGet, .path = "/v1/snapshots", .endpoint = asks(NamesAction::kAll)},
          {.path = "/v1/snapshots", .endpoint = std::make_shared<NameEndpoint>(names), .generates = true},
          {.method = HttpMethod::kGetDelete,
           .path = "/v1/snapshots/{name}",
           .endpoint = asks(NamesAction::kOne)}};
}

}  // namespace reprise::protocol::openai
