#include "protocol/openai/snapshot_api.h"

#include <atomic>
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
              {"tokens", snapshot.tokens}, {"created", snapshot.created}, {"expires", snapshot.expires}};
}

std::string read_name(const Fields& fields, const char* field) {
  const std::string* name = fields.string(field, kLongestName);
  if (name == nullptr || name->empty()) refuse_field(field, "missing", "is required");
  for (const char c : *name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '_' || c == '.';
    if (!plain) refuse_field(field, "invalid_value", "may have letters, digits, '-', '_' and '.' alone");
  }
  return *name;
}

/// One of its own for whoever goes on from a name: the turns of one do not replace what others go on from.
std::string new_conversation(const std::string& name) {
  static std::atomic<std::uint64_t> last{0};  // relaxed: hands out numbers
  return "snapshot " + name + " " + std::to_string(last.fetch_add(1, std::memory_order_relaxed));
}

ApiError no_such(std::string_view name) {
  return {.status = 404,
          .message = "there is no snapshot " + in_quotes(name),
          .code = "snapshot_not_found",
          .param = "from_snapshot"};
}

/// What is told when the prompt has been computed: its name is good from then on.
class NamedReply final : public Reply {
 public:
  NamedReply(std::shared_ptr<SnapshotShelf> shelf, std::string tenant, NamedSnapshot snapshot)
      : shelf_(std::move(shelf)), tenant_(std::move(tenant)), snapshot_(std::move(snapshot)) {}

  void admitted(const Admitted& event, std::int64_t, std::string&) override {
    snapshot_.model = event.model;
    snapshot_.tokens = event.prompt_tokens;
  }
  void started(const Started&, std::string&) override {}
  void delta(Delta, std::string&) override {}
  void finished(const Finished&, std::string&) override {}
  void done(const Done& event, std::string& out) override {
    Json told = shown(snapshot_);
    told["restored_tokens"] = event.usage.cache.restored_tokens;
    told["prefilled_tokens"] = event.usage.cache.prefilled_tokens;
    told["pinned_tokens"] = event.usage.cache.pinned_tokens;
    told["kept"] = shelf_->put(tenant_, std::move(snapshot_), std::time(nullptr));
    if (!event.usage.unknown_fields.empty())
      told["reprise"] = unknown_fields_report(event.usage.unknown_fields);
    told.dump_to(out);
  }

 private:
  const std::shared_ptr<SnapshotShelf> shelf_;
  const std::string tenant_;
  NamedSnapshot snapshot_;
};

class NamedCall final : public GenerationCall {
 public:
  NamedCall(ApiRequest asked, std::shared_ptr<SnapshotShelf> shelf, std::string tenant,
            NamedSnapshot snapshot)
      : GenerationCall(std::move(asked)),
        shelf_(std::move(shelf)),
        tenant_(std::move(tenant)),
        snapshot_(std::move(snapshot)) {}

  std::unique_ptr<StreamedReply> stream(ReplyContext) override { return nullptr; }  // never asked for
  std::unique_ptr<Reply> whole(ReplyContext) override {
    return std::make_unique<NamedReply>(std::move(shelf_), std::move(tenant_), std::move(snapshot_));
  }

 private:
  std::shared_ptr<SnapshotShelf> shelf_;
  std::string tenant_;
  NamedSnapshot snapshot_;
};

class NameEndpoint final : public Endpoint {
 public:
  explicit NameEndpoint(std::shared_ptr<SnapshotShelf> shelf) : shelf_(std::move(shelf)) {}
  const Dialect& dialect() const override { return *dialect_; }

  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    Json body = parse_body(input.body, limits, BodyHolds::kTokenIds);
    const bool chats = body.is_object() && body.find("messages") != nullptr;
    const TextKind kind = chats ? TextKind::kChat : TextKind::kCompletion;
    body = with_beginning(std::move(body), kind, *shelf_, input.tenant);
    const Fields fields(body);
    NamedSnapshot snapshot{.name = read_name(fields, "name")};
    snapshot.created = std::time(nullptr);
    snapshot.expires =
        snapshot.created + fields.integer("ttl", 1, SnapshotShelf::kLongest.count()).value_or(kUsualLife);
    for (const char* only_whole : {"stream", "n"}) {
      if (fields.find(only_whole) != nullptr)
        refuse_field(only_whole, "invalid_value", "does not go with a name");
    }
    TextRequest request = chats ? read_chat(fields, limits) : read_completion(fields, limits);
    if (!request.asked.further_prompts.empty()) refuse_field("prompt", "too_many", "one prompt has one name");
    request.asked.generate.max_tokens = 1;
    if (fields.boolean("pin").value_or(false)) {
      request.asked.generate.pin = std::chrono::seconds(snapshot.expires - snapshot.created);
    }
    request.asked.generate.conversation = new_conversation(snapshot.name);
    for (const char* member : kOfBeginning) {
      const Json* value = body.find(member);
      if (value != nullptr && !value->is_null()) snapshot.beginning[member] = *value;
    }
    request.asked.unknown_fields = unknown_fields_of(fields);
    return std::make_unique<NamedCall>(std::move(request.asked), shelf_, std::string(input.tenant),
                                       std::move(snapshot));
  }

 private:
  const std::shared_ptr<SnapshotShelf> shelf_;
  const std::shared_ptr<const Dialect> dialect_ = openai::dialect();
};

enum class ShelfWish { kAll, kOne, kDrop };

class ShelfQuestion final : public Question {
 public:
  ShelfQuestion(ShelfWish wish, std::shared_ptr<SnapshotShelf> shelf, std::string tenant, std::string name)
      : wish_(wish), shelf_(std::move(shelf)), tenant_(std::move(tenant)), name_(std::move(name)) {}

  Task<Answered> answer(Service&) override {
    const std::int64_t now = std::time(nullptr);
    if (wish_ == ShelfWish::kAll) {
      Json data = Json::array();
      for (const NamedSnapshot& one : shelf_->all(tenant_, now)) data.push_back(shown(one));
      co_return Json{{"object", "list"}, {"data", std::move(data)}}.dump();
    }
    if (wish_ == ShelfWish::kDrop) {
      if (!shelf_->drop(tenant_, name_, now)) co_return no_such(name_);
      co_return Json{{"object", "snapshot"}, {"name", name_}, {"deleted", true}}.dump();
    }
    const std::optional<NamedSnapshot> found = shelf_->find(tenant_, name_, now);
    if (!found) co_return no_such(name_);
    co_return shown(*found).dump();
  }

 private:
  const ShelfWish wish_;
  const std::shared_ptr<SnapshotShelf> shelf_;
  const std::string tenant_;
  const std::string name_;
};

class ShelfEndpoint final : public Endpoint {
 public:
  ShelfEndpoint(ShelfWish wish, std::shared_ptr<SnapshotShelf> shelf)
      : wish_(wish), shelf_(std::move(shelf)) {}
  const Dialect& dialect() const override { return *dialect_; }
  ParsedCall parse(const ApiInput& input, const BodyLimits&) const override {
    const ShelfWish wish = input.deletes ? ShelfWish::kDrop : wish_;
    return std::make_unique<ShelfQuestion>(wish, shelf_, std::string(input.tenant),
                                           std::string(input.path_end));
  }

 private:
  const ShelfWish wish_;
  const std::shared_ptr<SnapshotShelf> shelf_;
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
  refuse_field("prompt", "invalid_value", "must be text if that of the snapshot is, else token ids");
}

}  // namespace

Json with_beginning(Json body, TextKind kind, SnapshotShelf& shelf, std::string_view tenant) {
  if (!body.is_object() || body.find("from_snapshot") == nullptr) return body;
  const Json sent = body;  // the body changes while this is read
  const Fields fields(sent);
  if (fields.find("from_snapshot") == nullptr) return body;  // null
  const std::string name = read_name(fields, "from_snapshot");
  const auto from = shelf.find(std::string(tenant), name, std::time(nullptr));
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
      refuse_field(member, "invalid_value", "must be that of the snapshot, or left out");
    }
    if (named != nullptr) body[member] = *named;
  }
  const bool has_key = fields.find("prompt_cache_key") != nullptr;
  body[text] = std::move(whole);
  body.erase("from_snapshot");  // it has been read
  if (!has_key) body["prompt_cache_key"] = new_conversation(name);
  return body;
}

std::vector<ApiRoute> snapshot_routes(const std::shared_ptr<SnapshotShelf>& shelf) {
  const auto asks = [&](ShelfWish wish) { return std::make_shared<ShelfEndpoint>(wish, shelf); };
  return {
      {.method = HttpMethod::kGet, .path = "/v1/snapshots", .endpoint = asks(ShelfWish::kAll)},
      {.path = "/v1/snapshots", .endpoint = std::make_shared<NameEndpoint>(shelf), .generates = true},
      {.method = HttpMethod::kGetDelete, .path = "/v1/snapshots/{name}", .endpoint = asks(ShelfWish::kOne)}};
}

}  // namespace reprise::protocol::openai
