#include "protocol/api/snapshot_names.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>

namespace reprise::protocol {
namespace {

constexpr std::size_t kMaxNameLength = 128;

/// Does not check the salt's length; the request's readers do.
NameOwner owner_in(const Json& body, std::string_view tenant) {
  const std::string* salt = body.find_string("cache_salt");
  return {.tenant = std::string(tenant), .salt = salt == nullptr ? std::string() : *salt};
}

/// Concatenates two prompts of the same kind.
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
  if (name.size() > kMaxNameLength)
    refuse_field(said, "too_long", "may have " + std::to_string(kMaxNameLength) + " bytes");
  for (const char c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '_' || c == '.';
    if (!plain) refuse_field(said, "invalid_value", "may have letters, digits, '-', '_' and '.' alone");
  }
}

std::string read_snapshot_name(const Fields& fields, const char* field) {
  const std::string* name = fields.string(field, kMaxNameLength);
  if (name == nullptr) refuse_field(field, "missing", "is required");
  check_snapshot_name(field, *name);
  return *name;
}

Error no_such_snapshot(std::string_view name) {
  return {.kind = ErrorKind::kNotFound,
          .message = "there is no snapshot " + in_quotes(name),
          .param = "from_snapshot",
          .code = "snapshot_not_found"};
}

std::string new_conversation(const std::string& name) {
  static std::atomic<std::uint64_t> last{0};  // relaxed: only uniqueness matters
  return "snapshot " + name + " " + std::to_string(last.fetch_add(1, std::memory_order_relaxed));
}

SharedPinTicket ticket_for(NamedSnapshots& names, const NameOwner& owner, const std::string& name) {
  const auto same = names.find(owner, name, std::time(nullptr));
  if (same && same->ticket != nullptr) return same->ticket;
  return std::make_shared<const PinTicket>(PinTicket{.tenant = owner.tenant});
}

void keep_pin(const NamedSnapshot& from, GenerateRequest& request) {
  if (from.ticket == nullptr) return;
  const std::int64_t left = from.expires - std::time(nullptr);
  request.cache.pin = std::chrono::seconds(std::max<std::int64_t>(left, 0));
  request.cache.pin_ticket = from.ticket;
  request.cache.pin_tokens = from.tokens;
}

Continued with_beginning(Json body, TextKind kind, NamedSnapshots& names, std::string_view tenant) {
  if (!body.is_object() || body.find("from_snapshot") == nullptr) return {std::move(body)};
  const Json sent = body;
  const Fields fields(sent);
  if (fields.find("from_snapshot") == nullptr) return {std::move(body)};  // it is null
  const std::string name = read_snapshot_name(fields, "from_snapshot");
  auto from = names.find(owner_in(body, tenant), name, std::time(nullptr));
  if (!from) throw BadRequest(no_such_snapshot(name));
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
  for (const char* member : kBeginningMembers) {
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
  body.erase("from_snapshot");
  if (!has_key) body["prompt_cache_key"] = new_conversation(name);
  return {.body = std::move(body), .from = std::move(from)};
}

}  // namespace reprise::protocol
